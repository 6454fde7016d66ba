"""The cases: what the model does, what is asked, and what everybody must then have seen."""

import json
from dataclasses import dataclass, field

from job import COLOR, OWN

FIRST, LAST = "Let me look.", "That is all."
# The tool of the server; `OWN` is the client's.
OURS = "lookup"
MESSAGES = [{"role": "user", "content": "Please."}]
CHAT_SURFACE, RESPONSES_SURFACE, MESSAGES_SURFACE = "chat", "responses", "messages"
# What stands between the texts of two rounds: on the first surface these are one text.
GAPS = {CHAT_SURFACE: "\n\n", RESPONSES_SURFACE: "", MESSAGES_SURFACE: ""}
ENDS = {
    CHAT_SURFACE: {"stop": "stop", "calls": "tool_calls"},
    RESPONSES_SURFACE: {"stop": "completed", "calls": "completed"},
    MESSAGES_SURFACE: {"stop": "end_turn", "calls": "tool_use"},
}
ID_PREFIXES = {CHAT_SURFACE: "chatcmpl-", RESPONSES_SURFACE: "resp_", MESSAGES_SURFACE: "msg_"}
# What Messages calls an error of this code.
ERROR_KINDS = {
    "invalid_value": "invalid_request_error",
    "rate_limit_exceeded": "rate_limit_error",
    "upstream_failed": "api_error",
}
# Clients that block their thread.
BLOCKING = {
    "openai-python create",
    "openai-python responses create",
    "anthropic-python create",
}


@dataclass
class Seen:
    """What came of one case with one client."""

    client: str
    model: str
    outcome: dict
    # The requests that the model got, the arguments that the server's tool got, the turns' records.
    asked: list
    ran: list
    turns: list
    rounds: list
    extra: dict = field(default_factory=dict)

    @property
    def streams(self):
        return "stream" in self.client

    @property
    def surface(self):
        """The format in which the client asks."""
        if "anthropic" in self.client:
            return MESSAGES_SURFACE
        is_responses = "responses" in self.client or self.client.startswith("openai-agents")
        return RESPONSES_SURFACE if is_responses else CHAT_SURFACE

    @property
    def answers(self):
        return self.outcome["answers"]


def found(arguments):
    """What the server's tool answers."""
    return f"found {arguments}"


class Case:
    """A case without a list of tools; the key's are offered."""

    name = ""
    tools = None
    leaves = False
    names_user = False

    def takes(self, client):
        return True

    def rounds(self, model):
        raise NotImplementedError

    def follow_up(self, answers):
        """The messages of a second request, if there is one."""
        return None

    def check(self, seen):
        raise NotImplementedError


class Text(Case):
    """One answer of text."""

    name = "text"

    def rounds(self, model):
        return [{"text": LAST, "usage": (7, 5)}]

    def check(self, seen):
        _one_answer(seen, LAST, [7, 5])
        equal([turn["status"] for turn in seen.turns], ["completed"], "the turn")


class OneCall(Case):
    """The model calls a tool of the server, which the client never hears of."""

    name = "one call"

    def rounds(self, model):
        call = ("of-the-model-1", OURS, _q(model, 1))
        return [
            {"text": FIRST, "calls": [call], "usage": (10, 20)},
            {"text": LAST, "usage": (30, 40)},
        ]

    def check(self, seen):
        _one_answer(seen, f"{FIRST}{GAPS[seen.surface]}{LAST}", [40, 60])
        equal(seen.ran, [_q(seen.model, 1)], "what ran")
        _hidden_rounds(seen)


class TwoParallel(Case):
    """Two calls at once, two rounds long, of a tool that the client selects by its name."""

    name = "two parallel calls, two rounds"
    tools = [OURS]

    def rounds(self, model):
        calls = [(f"of-the-model-{n}", OURS, _q(model, n)) for n in range(4)]
        return [
            {"calls": calls[:2], "usage": (1, 10)},
            {"calls": calls[2:], "usage": (2, 20)},
            {"text": LAST, "usage": (4, 40)},
        ]

    def check(self, seen):
        _one_answer(seen, LAST, [7, 70])
        equal(sorted(seen.ran), [_q(seen.model, n) for n in range(4)], "what ran")
        _hidden_rounds(seen)


class ClientCall(Case):
    """The model calls the client's own tool: the client answers, and asks again."""

    name = "a client's call"
    tools = [OWN]

    def rounds(self, model):
        call = ("of-the-model-1", OWN, '{"mood": "calm"}')
        return [{"calls": [call], "usage": (3, 30)}, {"text": LAST, "usage": (6, 60)}]

    def check(self, seen):
        called, _ = _client_answers(seen, "")
        equal(seen.ran, [], "what the server ran")
        _, assistant, result = seen.asked[1]["messages"]
        equal(
            [(it["id"], it["function"]["name"]) for it in assistant["tool_calls"]],
            [("of-the-model-1", OWN)],
            "the call as the model gets it back",
        )
        equal(
            (result["role"], result["tool_call_id"], result["content"]),
            ("tool", "of-the-model-1", COLOR),
            "the result as the model gets it",
        )
        ((own,),) = [it["calls"] for it in seen.turns[0]["rounds"]]
        _is_minted(called["calls"][0][0], own)


class Mixed(Case):
    """One answer calls a tool of the server and one of the client, who sees only its own."""

    name = "a mixed round"
    tools = [OURS, OWN]

    def rounds(self, model):
        calls = [
            ("of-the-model-1", OURS, _q(model, 1)),
            ("of-the-model-2", OWN, '{"mood": "calm"}'),
        ]
        return [
            {"text": FIRST, "calls": calls, "usage": (3, 30)},
            {"text": LAST, "usage": (6, 60)},
        ]

    def check(self, seen):
        called, _ = _client_answers(seen, FIRST)
        equal(seen.ran, [_q(seen.model, 1)], "what the server ran")
        _, assistant, *results = seen.asked[1]["messages"]
        functions = [(it["id"], it["function"]["name"]) for it in assistant["tool_calls"]]
        equal(
            functions,
            [("of-the-model-1", OURS), ("of-the-model-2", OWN)],
            "the calls as the model gets them back",
        )
        equal(
            [(it["role"], it["tool_call_id"], it["content"]) for it in results],
            [
                ("tool", "of-the-model-1", found(_q(seen.model, 1))),
                ("tool", "of-the-model-2", COLOR),
            ],
            "the results as the model gets them",
        )
        ours, own = seen.turns[0]["rounds"][0]["calls"]
        equal((ours["runs"], own["runs"]), ("server", "client"), "who ran the calls")
        _is_minted(called["calls"][0][0], own)


class Memory(Case):
    """A second request with the history as the client saw it: the model remembers the calls."""

    name = "memory"
    tools = [OURS]
    names_user = True

    def rounds(self, model):
        call = ("of-the-model-1", OURS, _q(model, 1))
        return [
            {"calls": [call], "usage": (1, 10)},
            {"text": LAST, "usage": (2, 20)},
            {"text": FIRST, "usage": (4, 40)},
        ]

    def follow_up(self, answers):
        (first,) = answers
        return [
            *MESSAGES,
            {"role": "assistant", "content": first["text"]},
            {"role": "user", "content": "And now?"},
        ]

    def check(self, seen):
        equal(seen.outcome["error"], None, "the error")
        equal([it["text"] for it in seen.answers], [LAST, FIRST], "the texts")
        equal([it["calls"] for it in seen.answers], [[], []], "calls shown")
        equal(seen.ran, [_q(seen.model, 1)], "what ran")
        _, called, result, said, asked = seen.asked[2]["messages"]
        ((_, _, arguments),) = seen.rounds[0]["calls"]
        (call,) = called["tool_calls"]
        equal(
            (call["id"], call["function"]["name"], call["function"]["arguments"]),
            ("of-the-model-1", OURS, arguments),
            "the call that the client never saw",
        )
        equal(
            (result["role"], result["tool_call_id"], result["content"]),
            ("tool", "of-the-model-1", found(arguments)),
            "the result that the client never saw",
        )
        equal(_text(said), LAST, "the answer as the client saw it")
        equal(_text(asked), "And now?", "what was asked then")
        first, second = seen.turns
        equal(second["parent"], first["id"], "the turn that was continued")
        for answer, turn in zip(seen.answers, seen.turns):
            _has_id(seen, answer, turn)


class Cancel(Case):
    """The client leaves in the middle."""

    name = "cancel"
    leaves = True

    def takes(self, client):
        # A call that blocks its thread can be left by nobody.
        return client not in BLOCKING

    def rounds(self, model):
        return [{"text": FIRST, "then": "wait"}]

    def check(self, seen):
        equal(seen.answers, [], "answers")
        if seen.outcome["error"] is not None:
            equal(seen.outcome["error"]["class"], "aborted", "the error")
        if seen.streams and not FIRST.startswith("".join(seen.outcome["seen"]) or "-"):
            raise AssertionError(f"the stream showed {seen.outcome['seen']}")
        ((status, reason),) = [(turn["status"], turn["reason"]) for turn in seen.turns]
        equal((status, reason), ("cancelled", "client_left"), "the turn")
        equal(seen.extra["left"], True, "whether the model's connection was closed")


class Refused(Case):
    """The provider finds the request wrong: its own words, as a 400."""

    name = "refused"

    def rounds(self, model):
        error = {"message": "There is no such voice.", "type": "invalid_request_error"}
        return [{"status": 400, "error": {**error, "param": "voice", "code": "invalid_value"}}]

    def check(self, seen):
        _error(seen, 400, "invalid_value", "There is no such voice.")
        equal(len(seen.asked), 1, "model requests")


class Limited(Case):
    """The provider is at its limit, and stays there."""

    name = "limited"

    def rounds(self, model):
        error = {"message": "Too many.", "type": "requests", "code": "rate_limit_exceeded"}
        return [{"status": 429, "error": error}] * ATTEMPTS

    def check(self, seen):
        _error(seen, 429, "rate_limit_exceeded", None)
        equal(len(seen.asked), ATTEMPTS, "model requests")


class Broken(Case):
    """The provider is broken."""

    name = "broken"

    def rounds(self, model):
        return [{"status": 500, "error": {"message": "Oh.", "type": "server_error"}}] * ATTEMPTS

    def check(self, seen):
        _error(seen, 502, "upstream_failed", None)
        equal(len(seen.asked), ATTEMPTS, "model requests")


class Cut(Case):
    """The provider's connection breaks in the middle of a streamed text."""

    name = "cut"

    def takes(self, client):
        return "stream" in client

    def rounds(self, model):
        return [{"text": FIRST, "then": "cut"}]

    def check(self, seen):
        _error(seen, None, "upstream_failed", None)
        equal(len(seen.asked), 1, "model requests")
        if not FIRST.startswith("".join(seen.outcome["seen"]) or "-"):
            raise AssertionError(f"the stream showed {seen.outcome['seen']}")


ATTEMPTS = 3
# These show or keep no finish reasons, whatever the server is.
WITHOUT_FINISH = {
    "@langchain/openai agent stream",
    "openai-agents run",
    "openai-agents run streamed",
}
CASES = [
    Text(),
    OneCall(),
    TwoParallel(),
    ClientCall(),
    Mixed(),
    Memory(),
    Cancel(),
    Refused(),
    Limited(),
    Broken(),
    Cut(),
]


def equal(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, wanted {wanted!r}")


def _q(model, n):
    return json.dumps({"q": f"{model} {n}"})


def _text(message):
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _one_answer(seen, text, usage):
    """The client got one answer of text, and nothing that looks like a tool."""
    equal(seen.outcome["error"], None, "the error")
    equal(seen.outcome["ran"], [], "what the client ran")
    equal(len(seen.answers), 1, "answers")
    (answer,) = seen.answers
    equal(answer["text"], text, "the text")
    _finishes(seen, ["stop"])
    equal(answer["calls"], [], "calls shown")
    equal(answer["usage"], _usage(seen, usage), "the usage")
    if seen.streams:
        equal("".join(seen.outcome["seen"]), text, "the text as it was streamed")
    equal(len(seen.turns), 1, "turns")
    _has_id(seen, answer, seen.turns[0])


def _client_answers(seen, text):
    """The client got the text with its own call, ran it, asked again, and got the last text."""
    equal(seen.outcome["error"], None, "the error")
    equal(len(seen.answers), 2, "answers")
    called, last = seen.answers
    equal(called["text"], text, "the text of the answer with the call")
    ((_, name, arguments),) = called["calls"]
    equal((name, json.loads(arguments)), (OWN, {"mood": "calm"}), "the call")
    ran = [(name, json.loads(arguments)) for name, arguments in seen.outcome["ran"]]
    equal(ran, [(OWN, {"mood": "calm"})], "what the client ran")
    equal((last["text"], last["calls"]), (LAST, []), "the last answer")
    _finishes(seen, ["calls", "stop"])
    usage = [_usage(seen, it) for it in ([3, 30], [6, 60])]
    equal([it["usage"] for it in seen.answers], usage, "usage")
    equal([turn["status"] for turn in seen.turns], ["completed"] * 2, "the turns")
    for answer, turn in zip(seen.answers, seen.turns):
        _has_id(seen, answer, turn)
    return called, last


def _is_minted(shown, call):
    """The id that the client was shown is the server's own, not the model's."""
    equal(shown, "call_" + call["id"].replace("-", ""), "the id of the client's call")


def _finishes(seen, wanted):
    got = [answer["finish"] for answer in seen.answers]
    # The AI SDK has words of its own, which are about those of the first.
    ends = ENDS[CHAT_SURFACE if seen.client.startswith("ai ") else seen.surface]
    words = [ends[end] for end in wanted]
    if seen.client in WITHOUT_FINISH:
        words = [None] * len(wanted)
    equal(got, words, "the finish reasons")


def _usage(seen, wanted):
    """The usage as this client shows it."""
    if seen.streams and seen.client.startswith("@langchain/anthropic"):
        # It takes the input from the event that begins a message, when nobody knows it.
        return [0, wanted[1]]
    return wanted


def _has_id(seen, answer, turn):
    """The answer's id, where a client shows it, is the turn's."""
    if answer["id"] is not None:
        wanted = ID_PREFIXES[seen.surface] + turn["id"].replace("-", "")
        equal(answer["id"], wanted, "the answer's id")


def _hidden_rounds(seen):
    """The model got each round's calls back as it made them, with a result each, in their order."""
    equal(len(seen.asked), len(seen.rounds), "model requests")
    given = seen.asked[-1]["messages"][1:]
    (turn,) = seen.turns
    equal(turn["status"], "completed", "the turn")
    equal(len(turn["rounds"]), len(seen.rounds), "rounds in the record")
    for made, recorded in zip(seen.rounds[:-1], turn["rounds"]):
        assistant, given = given[0], given[1:]
        functions = [(it["id"], it["function"]) for it in assistant["tool_calls"]]
        equal(
            [(call_id, function["name"], function["arguments"]) for call_id, function in functions],
            made["calls"],
            "the calls as the model gets them back",
        )
        results, given = given[: len(made["calls"])], given[len(made["calls"]) :]
        equal(
            [(it["role"], it["tool_call_id"], it["content"]) for it in results],
            [("tool", call_id, found(arguments)) for call_id, _, arguments in made["calls"]],
            "the results as the model gets them",
        )
        kept = [
            (it["runs"], it["status"], it["tool_call_id"], it["shown"]) for it in recorded["calls"]
        ]
        equal(
            kept,
            [("server", "completed", it["tool_call_id"], it["content"]) for it in results],
            "the calls in the record",
        )
    equal(given, [], "messages behind the last result")


OPENAI_CLASSES = {
    400: "BadRequestError",
    429: "RateLimitError",
    502: "InternalServerError",
    None: "APIError",
}
# How each family of clients names an error of this status; `None` is an error in a stream.
CLASSES = {
    "openai-python": OPENAI_CLASSES,
    "openai-node": OPENAI_CLASSES,
    "anthropic-python": {**OPENAI_CLASSES, None: "APIStatusError"},
    "anthropic-node": {**OPENAI_CLASSES, None: "APIError"},
    "langchain-anthropic": {
        400: "AnthropicInvalidRequestError",
        429: "AnthropicRateLimitError",
        502: "AnthropicAPIError",
        None: "APIStatusError",
    },
    "@langchain/anthropic": {**OPENAI_CLASSES, None: "APIError"},
    "openai-agents": OPENAI_CLASSES,
    "langchain-openai": {
        400: "OpenAIInvalidRequestError",
        429: "OpenAIRateLimitError",
        502: "OpenAIAPIError",
        None: "APIError",
    },
    "@langchain/openai": OPENAI_CLASSES,
    "ai": {
        400: "APICallError",
        429: "APICallError",
        502: "APICallError",
        None: "StreamProviderError",
    },
}


def _error(seen, status, code, message):
    """The client raised its own class for the status, with what the server said."""
    error = seen.outcome["error"]
    if error is None:
        raise AssertionError(f"no error, but {seen.answers}")
    family = seen.client.split(" ")[0]
    equal(error["class"], CLASSES[family][status], f"the class of {error}")
    wanted = ERROR_KINDS[code] if seen.surface == MESSAGES_SURFACE else code
    if seen.client == "ai anthropic streamText" and status is None:
        # It shows the message alone.
        wanted = None
    equal(error["code"], wanted, f"the code of {error}")
    if message is not None and message not in error["message"]:
        raise AssertionError(f"the message is {error['message']!r}")
    (turn,) = seen.turns
    equal((turn["status"], turn["reason"]), ("failed", "upstream"), "the turn")
    # An error in a stream has neither of these.
    if status is not None:
        equal(error["status"], status, f"the status of {error}")
        equal(error["request_id"], seen.extra["request_id"], "the request's id")
