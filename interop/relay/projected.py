"""What a surface should show of a recording, and a request that the recording may be an answer to."""

import json

from clients import CHAT, MESSAGES, RESPONSES
from recordings import NOT_SENT, function_tool, request_for
from recordings import CHAT as CHAT_KIND
from recordings import MESSAGES as MESSAGES_KIND
from recordings import RESPONSES as RESPONSES_KIND

SURFACE_OF = {CHAT_KIND: CHAT, RESPONSES_KIND: RESPONSES, MESSAGES_KIND: MESSAGES}
ASKED = "Go on."
OUTPUT_TOKENS_MAX = 4096
# The words of each surface for the ends that an answer may have.
ENDS = {
    CHAT: {
        "length": "length",
        "calls": "tool_calls",
        "function": "function_call",
        "refusal": "content_filter",
        "stop": "stop",
    },
    RESPONSES: {
        "length": "max_output_tokens",
        "calls": "completed",
        "function": "completed",
        "refusal": "content_filter",
        "stop": "completed",
    },
    MESSAGES: {
        "length": "max_tokens",
        "calls": "tool_use",
        "function": "tool_use",
        "refusal": "refusal",
        "stop": "end_turn",
    },
}


class Projected:
    """A recording as a surface should show it."""

    def __init__(self, recording, surface):
        self.surface = surface
        self.is_own = SURFACE_OF.get(recording.kind) == surface
        self.refusal = recording.expect.get("refusal")
        self.function = recording.expect.get("function_call")
        self.choices = recording.choices()
        self._recording = recording
        if recording.kind != CHAT_KIND:
            self.choices = [(recording.expect["text"], calls_of(recording))]
        elif surface != CHAT:
            # The other surfaces have one answer.
            self.choices = self.choices[:1]
        if surface == MESSAGES and self.refusal:
            # A refusal is a text with an end of its own.
            ((text, calls),) = self.choices
            self.choices = [(text + self.refusal, calls)]
        if surface != CHAT and self.function:
            # A function of the old kind is a call as any other.
            ((text, _),) = self.choices
            self.choices = [(text, [(self.function["name"], self.function["arguments"])])]

    @property
    def finish(self):
        recording, words = self._recording, ENDS[self.surface]
        if recording.ends_by_length:
            return words["length"]
        if any(calls for _, calls in self.choices):
            return words["calls"]
        if self.function:
            return words["function"]
        if self.surface == MESSAGES and self.refusal:
            return words["refusal"]
        # Some providers leave the reason out.
        said = [*recording.expect["finish"], "stop"][0]
        if self.is_own and self.surface == MESSAGES:
            return said
        return words["refusal" if said == "refusal" else "stop"]

    @property
    def kinds(self):
        """The types of items or blocks in order, where the recording is of the surface's own format."""
        if self.surface == CHAT or not self.is_own:
            return None
        return self._recording.expect.get("item_types" if self.surface == RESPONSES else "block_types")

    @property
    def thought_chars(self):
        """How long the thought is; `None` where the manifest or the surface's clients do not say."""
        return None if self.surface == CHAT else self._recording.expect["reasoning_chars"] or None

    @property
    def usage(self):
        """Tokens of the input, cached ones included, and of the output."""
        used = self._recording.expect.get("usage")
        if self.surface == CHAT or not used:
            return None
        if "prompt_tokens" in used:
            return [used["prompt_tokens"], used.get("completion_tokens", 0)]
        cached = ("cache_creation_input_tokens", "cache_read_input_tokens")
        beside = sum(used.get(name) or 0 for name in cached)
        return [used["input_tokens"] + beside, used["output_tokens"]]


def calls_of(recording):
    """The calls that the client is to run, as (name, arguments)."""
    calls = [call for call in recording.calls if call.get("block", "tool_use") == "tool_use"]
    return [(call["name"], call["arguments"]) for call in calls] + custom_calls(recording)


def custom_calls(recording):
    """Calls of custom tools in a response; the manifest counts them among the items alone."""
    if "custom_tool_call" not in recording.expect.get("item_types", []):
        return []
    lines = recording.body.decode().splitlines()
    events = [json.loads(line[5:]) for line in lines if line.startswith("data:")]
    done = [it["item"] for it in events if it["type"] == "response.output_item.done"]
    return [(it["name"], it["input"]) for it in done if it["type"] == "custom_tool_call"]


def request_on(recording, surface):
    """The recorded request where it is of this surface, or one made up."""
    if surface == CHAT and recording.kind == CHAT_KIND:
        return request_for(recording)
    own = SURFACE_OF.get(recording.kind) == surface
    request = {key: value for key, value in recording.request.items() if own and key not in NOT_SENT}
    names = dict.fromkeys(name for name, _ in calls_of(recording))
    if surface == CHAT:
        request["messages"] = [{"role": "user", "content": ASKED}]
        custom = custom_calls(recording)
        tools = [
            {"type": "custom", "custom": {"name": name}}
            if name in dict(custom)
            else function_tool(name, {"type": "object"})
            for name in names
        ]
    elif surface == RESPONSES:
        request.setdefault("input", ASKED)
        custom = {name: True for name, _ in custom_calls(recording)}
        custom |= {it["name"]: True for it in recording.calls if it.get("type") == "custom"}
        tools = [
            {"type": "custom", "name": name}
            if name in custom
            else {"type": "function", "name": name, "parameters": {"type": "object"}}
            for name in names
        ]
    else:
        request.setdefault("messages", [{"role": "user", "content": ASKED}])
        request.setdefault("max_tokens", OUTPUT_TOKENS_MAX)
        tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    if tools:
        request.setdefault("tools", tools)
    return request
