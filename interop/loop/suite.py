"""Every recorded chat answer with calls, as the first round of a tool loop on the server, by each surface."""

import json
import re
import sys
import warnings
from collections import Counter

from clients import CHAT as BY_CHAT
from clients import MESSAGES, PYTHON_CLIENTS, RESPONSES, SURFACES, NodeClient, PythonClient
from recordings import CHAT, function_tool, load
from server import Server, config_with
from upstream import Listener, Reply, Upstream

# What a tool may be called (the clients' own rule, and the server's).
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
ANSWER = "That is all."
ROUNDS_MAX = 2
OUTPUT_TOKENS_MAX = 4096
# A surface's words for the end by length, and for any other.
FINISHES = {
    BY_CHAT: ("length", "stop"),
    RESPONSES: ("max_output_tokens", "completed"),
    MESSAGES: ("max_tokens", "end_turn"),
}
# What stands between the texts of two rounds: nothing where each is a block of its own.
GAPS = {BY_CHAT: "\n\n", RESPONSES: "", MESSAGES: ""}
# What the record says of a call by its fate.
REASONS = {
    "ran": None,
    "cut off by length": "invalid_arguments",
    "invalid arguments": "invalid_arguments",
    "unknown tool": "unknown_tool",
}
FAILURE_CHARS_SHOWN = 1500

# openai-python's stream helper says so of each item that it has no class for in its union, such as a failed `mcp_call`.
warnings.filterwarnings("ignore", message="Pydantic serializer warnings")


class Case:
    """A recording, and what must come of its calls when only the first called tool is offered."""

    def __init__(self, recording):
        self.recording = recording
        # One choice was asked for, whatever the recording holds.
        self.text, self.calls = recording.choices()[0]
        self.tool = self.calls[0][0]
        self.fates = [self._fate(name, arguments) for name, arguments in self.calls]
        self.runs = [
            (self.tool, recording.whole(arguments))
            for (_, arguments), fate in zip(self.calls, self.fates)
            if fate == "ran"
        ]

    def _fate(self, name, arguments):
        if self.recording.ends_by_length:
            return "cut off by length"
        if name != self.tool:
            return "unknown tool"
        try:
            is_object = isinstance(json.loads(self.recording.whole(arguments)), dict)
        except ValueError:
            is_object = False
        return "ran" if is_object else "invalid arguments"

    def request(self, surface):
        """What a client of a surface sends that selects the tool by its name."""
        parameters = {"type": "object"}
        for tool in self.recording.request.get("tools", []):
            function = tool.get("function", {})
            if function.get("name") == self.tool:
                parameters = function.get("parameters", parameters)
        asked = [{"role": "user", "content": "Go on."}]
        if surface == RESPONSES:
            tool = {"type": "function", "name": self.tool, "parameters": parameters, "strict": False}
            return {"input": asked, "tools": [tool]}
        if surface == MESSAGES:
            tool = {"name": self.tool, "input_schema": {"type": "object", **parameters}}
            return {"messages": asked, "tools": [tool], "max_tokens": OUTPUT_TOKENS_MAX}
        return {"messages": asked, "tools": [function_tool(self.tool, parameters)]}

    def text_shown(self, surface):
        if self.recording.ends_by_length:
            return self.text
        return GAPS[surface].join(text for text in (self.text, ANSWER) if text)

    def finish_shown(self, surface):
        by_length, other = FINISHES[surface]
        return by_length if self.recording.ends_by_length else other


class RawClient:
    """No client library: the answer's own bytes."""

    name = "raw bytes"

    def __init__(self, server):
        self._server = server

    def read(self, request, streamed):
        assert streamed
        body = self._server.post({**request, "stream": True}).decode()
        events = [line.removeprefix("data: ") for line in body.splitlines() if line[:5] == "data:"]
        assert events.count("[DONE]") == 1 and events[-1] == "[DONE]", "no [DONE] at the end"
        choices = [
            (choice, chunk["id"])
            for chunk in map(json.loads, events[:-1])
            for choice in chunk["choices"]
        ]
        assert len({turn for _, turn in choices}) == 1, "the answer's id changes"
        assert {choice["index"] for choice, _ in choices} == {0}, "more than one choice"
        deltas = [choice["delta"] for choice, _ in choices]
        assert not any("tool_calls" in delta for delta in deltas), "a tool delta was shown"
        roles = [delta["role"] for delta in deltas if "role" in delta]
        assert roles == ["assistant"], f"the roles are {roles}"
        finishes = [choice["finish_reason"] for choice, _ in choices if choice.get("finish_reason")]
        assert len(finishes) == 1, f"the finish reasons are {finishes}"
        text = "".join(delta.get("content") or "" for delta in deltas)
        shown = {"text": text, "finish": finishes[0], "calls": [], "function": None}
        return {"choices": [shown], "error": None, "id": choices[0][1]}

    def close(self):
        pass


def main():
    with_calls = [it for it in load() if it.kind == CHAT and it.calls]
    cases = [Case(it) for it in with_calls if TOOL_NAME.fullmatch(it.choices()[0][1][0][0])]
    by_file = {case.recording.file: case for case in cases}

    def replies(model, n):
        recording = by_file[model.split(":", 1)[1]].recording
        return Reply.of(recording, in_pieces=True) if n == 0 else last_answer(recording.streamed)

    upstream, listener = Upstream(replies), Listener()
    tools = sorted({case.tool for case in cases})
    probes = [(tool, f"{listener.base_url}/{tool}") for tool in tools]
    failures, counts = [], Counter()
    with Server(config_with(upstream.base_url, probes), tools="all") as server:
        clients = [(RawClient(server), BY_CHAT)]
        for surface in SURFACES:
            clients += [(PYTHON_CLIENTS[surface](server), surface), (NodeClient(server, surface), surface)]
        for client, surface in clients:
            row = f"{client.name}, {surface}"
            for case in cases:
                if isinstance(client, RawClient) and not case.recording.streamed:
                    continue
                problem = check(client, surface, case, server, upstream, listener)
                if problem:
                    failures.append(f"{row}: {case.recording.file}: {problem}")
                counts.update((row, fate) for fate in case.fates)
                counts[row, "wrong answers" if problem else "right answers"] += 1
            client.close()
    upstream.close()
    listener.close()
    show([f"{client.name}, {surface}" for client, surface in clients], counts)
    print(f"left out for a name that no tool may have: {len(with_calls) - len(cases)}")
    for failure in failures:
        print(f"FAILED {failure[:FAILURE_CHARS_SHOWN]}")
    sys.exit(1 if failures else 0)


def last_answer(streamed):
    """The answer of the second round, as any provider would send it."""
    head = {"id": "chatcmpl-last", "created": 1, "model": "fixed"}
    if not streamed:
        message = {"role": "assistant", "content": ANSWER}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = {**head, "object": "chat.completion", "choices": [choice]}
        return Reply(json.dumps(body).encode(), "application/json")
    steps = [({"role": "assistant", "content": ANSWER}, None), ({}, "stop")]
    chunks = [
        {
            **head,
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }
        for delta, finish in steps
    ]
    events = [json.dumps(chunk) for chunk in chunks] + ["[DONE]"]
    body = "".join(f"data: {event}\n\n" for event in events)
    return Reply(body.encode(), "text/event-stream")


def check(client, surface, case, server, upstream, listener):
    """One request; what is wrong about its outcome, or `None`."""
    model = f"{client.name}, {surface}:{case.recording.file}"
    outcome, asked = None, []
    try:
        outcome = client.read({**case.request(surface), "model": model}, case.recording.streamed)
        asked = upstream.asked.get(model, [])
        check_ran(case, listener.take())
        check_shown(case, surface, outcome, isinstance(client, PythonClient))
        if case.recording.ends_by_length:
            assert len(asked) == 1, f"{len(asked)} model requests after a length"
        else:
            assert len(asked) == ROUNDS_MAX, f"{len(asked)} model requests"
            check_second_request(case, asked[1])
        if outcome["id"]:
            check_record(case, server.turn(outcome["id"]))
    except (AssertionError, LookupError, OSError) as problem:
        listener.take()
        return f"{problem!r}; {outcome}; last asked {json.dumps(asked[-1:])}"
    return None


def check_ran(case, ran):
    """Each good call once, with the bytes that the model wrote; no other."""
    assert sorted(ran) == sorted(case.runs), f"ran {ran} instead of {case.runs}"


def check_shown(case, surface, outcome, is_python):
    error = outcome["error"]
    if case.recording.ends_by_length and case.recording.streamed and is_python:
        raised = error and error["class"]
        assert raised == "LengthFinishReasonError", f"raised {raised}"
    else:
        assert error is None, "there was an error"
    assert len(outcome["choices"]) == 1, "not one choice"
    shown = outcome["choices"][0]
    text = case.text_shown(surface)
    assert shown["text"] == text, f"the text is not {text!r}"
    assert shown["finish"] == case.finish_shown(surface), f"the finish reason is {shown['finish']}"
    assert not shown["calls"] and not shown["function"], "calls were shown"


def check_second_request(case, request):
    """The model is given its calls and one result for each, in order."""
    assistant, *results = request["messages"][1:]
    calls = assistant["tool_calls"]
    # A custom call goes back as one.
    bodies = [call.get("function") or call["custom"] for call in calls]
    names = [name for name, _ in case.calls]
    assert [body["name"] for body in bodies] == names, "the calls given back are others"
    ids = [call["id"] for call in calls]
    assert all(ids) and len(set(ids)) == len(ids), f"ids are empty or repeated: {ids}"
    own = [call["id"] for call in case.recording.calls][: len(ids)]
    if all(own) and len(set(own)) == len(own):
        assert ids == own, f"the model's own ids {own} were replaced"
    assert [it["role"] for it in results] == ["tool"] * len(ids), "not one result for each call"
    assert [it["tool_call_id"] for it in results] == ids, "results are missing or out of order"
    for body, result, fate, (name, arguments) in zip(bodies, results, case.fates, case.calls):
        said = result["content"]
        if fate == "ran":
            assert said == "done", f"the result is {said!r}"
            wanted = case.recording.whole(arguments)
            assert body["arguments"] == wanted, "the arguments given back are others"
        elif fate == "unknown tool":
            assert f'no tool named "{name}"' in said, f"unknown tool, but {said!r}"
        else:
            assert "arguments" in said.lower(), f"the result does not say why: {said!r}"


def check_record(case, turn):
    calls = turn["rounds"][0]["calls"]
    assert [call["name"] for call in calls] == [name for name, _ in case.calls], "other calls"
    for call, fate in zip(calls, case.fates):
        assert call["status"] == ("completed" if fate == "ran" else "failed"), f"{fate}: {call}"
        assert call["reason"] == REASONS[fate], f"{fate}, but {call['reason']}"
        if fate == "cut off by length":
            assert "cut off" in call["shown"], f"the record does not say why: {call['shown']!r}"
    wanted = ("incomplete", "length") if case.recording.ends_by_length else ("completed", None)
    assert (turn["status"], turn["reason"]) == wanted, f"the turn is {turn['status']}"


def show(clients, counts):
    columns = ["right answers", "wrong answers", "ran", "cut off by length"]
    columns += ["invalid arguments", "unknown tool"]
    print(f"{'':<36}" + "".join(f"{name:>19}" for name in columns))
    for client in clients:
        row = "".join(f"{counts[client, column]:>19}" for column in columns)
        print(f"{client:<36}{row}")


if __name__ == "__main__":
    main()
