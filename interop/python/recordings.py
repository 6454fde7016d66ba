"""The recorded answers of providers, and what a client should make of each."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

CHAT = "openai.chat.completions"
RESPONSES = "openai.responses"
MESSAGES = "anthropic.messages"
ERROR = "error"
# How each kind says that an answer was cut off by its length.
LENGTHS = {"length", "max_tokens", "response.incomplete", "incomplete"}


@dataclass(frozen=True)
class Recording:
    """One entry of the manifest and its bytes."""

    file: str
    kind: str
    endpoint: str
    streamed: bool
    status: int
    body: bytes
    expect: dict
    request: dict
    fed_directly: dict

    @property
    def content_type(self):
        return "text/event-stream" if self.streamed else "application/json"

    @property
    def calls(self):
        return self.expect["calls"]

    @property
    def ends_by_length(self):
        return not LENGTHS.isdisjoint(self.expect["finish"])

    @property
    def upstream_kind(self):
        """The format in which the recording's provider was asked, as a configuration calls it."""
        if self.kind == MESSAGES or self.endpoint.endswith("/messages"):
            return "anthropic"
        if self.kind == RESPONSES or self.endpoint.endswith("/responses"):
            return "openai_responses"
        return "openai"

    def error_message(self):
        """What the upstream says went wrong; `None` for an answer that is no error."""
        errors = self.expect.get("errors")
        if not errors:
            return None
        error = errors[0]
        if isinstance(error, str):
            return error
        error = error.get("error") or error
        return error.get("message") or error.get("detail")

    def choices(self):
        """What a client should assemble: for each choice its text and its (name, arguments).

        The manifest holds one text and one list of calls for all choices together. Where several
        were asked for, they are taken apart here.
        """
        if self.request.get("n", 1) > 1 and self.streamed:
            return self._choices_of_stream()
        calls = [(call["name"], call["arguments"]) for call in self.calls]
        return [(self.expect["text"], calls)]

    def whole(self, arguments):
        """No arguments at all are an empty object, unless they were cut off."""
        return "{}" if arguments == "" and not self.ends_by_length else arguments

    def _choices_of_stream(self):
        texts, calls = {}, {}
        for line in self.body.decode().splitlines():
            payload = line.removeprefix("data:").strip()
            if not line.startswith("data:") or payload == "[DONE]":
                continue
            for choice in json.loads(payload).get("choices", []):
                at, delta = choice["index"], choice["delta"]
                texts[at] = texts.get(at, "") + (delta.get("content") or "")
                for piece in delta.get("tool_calls") or []:
                    call = calls.setdefault(at, {}).setdefault(piece["index"], ["", ""])
                    call[0] += piece["function"].get("name") or ""
                    call[1] += piece["function"].get("arguments") or ""
        return [
            (texts[at], [tuple(call) for _, call in sorted(calls.get(at, {}).items())])
            for at in sorted(texts)
        ]


def load(kinds=(CHAT, ERROR)):
    """The answers of these kinds, in the manifest's order.

    Ends the suite where the recordings are not there: they are no part of the repository.
    """
    folder = Path(os.environ["TURNWRIGHT_SHARED"]) / "streams"
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        print(f"left out: there are no recordings in {folder}")
        sys.exit(1 if os.environ.get("TURNWRIGHT_REQUIRE") == "1" else 0)
    found = []
    for entry in json.loads(manifest.read_text())["streams"]:
        if entry["kind"] not in kinds:
            continue
        found.append(
            Recording(
                file=entry["file"],
                kind=entry["kind"],
                endpoint=entry["endpoint"],
                streamed=entry["stream"],
                status=entry["http_status"],
                body=(folder / entry["file"]).read_bytes(),
                expect=entry["expect"],
                request=(entry["request"] or {}) if entry["kind"] != ERROR else {},
                fed_directly=entry.get("clients_fed_directly", {}),
            )
        )
    return found


# Keys of a recorded request that its recorder put there, or that the suites set themselves.
NOT_SENT = ("model", "stream", "extra_body", "_omitted", "tool_names")


def request_for(recording):
    """A request that this answer may be the answer to: the recorded one, or one made up."""
    request = {key: value for key, value in recording.request.items() if key not in NOT_SENT}
    request.setdefault("messages", [{"role": "user", "content": "Go on."}])
    # What one provider calls `any` is `required` in the format that the clients speak.
    if request.get("tool_choice") == "any":
        request["tool_choice"] = "required"
    if recording.calls and "tools" not in request and "functions" not in request:
        names = dict.fromkeys(call["name"] for call in recording.calls)
        request["tools"] = [function_tool(name, {"type": "object"}) for name in names]
    return request


def function_tool(name, parameters):
    return {"type": "function", "function": {"name": name, "parameters": parameters}}
