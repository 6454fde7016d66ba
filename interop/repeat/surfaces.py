"""The surfaces that requests are sent to without a client library: how each is asked and read."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Surface:
    name: str
    path: str
    """Where a request has its messages."""
    history: str
    """What a stream has that went well, and one that was cancelled has not."""
    ends: tuple[bytes, ...]
    """What a stream says that was cancelled."""
    cancelled: bytes
    """Whether errors have codes; those of Messages are a type and a message."""
    has_codes: bool = True

    def body(self, text: str, stream: bool, more: dict[str, object]) -> bytes:
        wanted = {"model": "any", self.history: [{"role": "user", "content": text}], "stream": stream, **more}
        if self is MESSAGES:
            wanted["max_tokens"] = 100
            if "user" in wanted:
                wanted["metadata"] = {"user_id": wanted.pop("user")}
        return json.dumps(wanted).encode()


CHAT = Surface("chat", "/v1/chat/completions", "messages", (b"[DONE]", b'"finish_reason":"'), b'"error"')
MESSAGES = Surface("messages", "/v1/messages", "messages", (b"message_stop",), b'"error"', has_codes=False)
# A response that began is cancelled, and not an error.
RESPONSES = Surface("responses", "/v1/responses", "input", (b"response.completed",), b'"status":"cancelled"')
SURFACES = (CHAT, MESSAGES, RESPONSES)


def text_of(body: bytes) -> str:
    """The text of an answer of any surface, streamed or plain."""
    if not body.startswith((b"data:", b"event:", b":")):
        return _text_of_whole(json.loads(body))
    lines = body.decode().split("\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    return "".join(_text_of_event(event) for event in events)


def _text_of_whole(answer: dict) -> str:
    if "choices" in answer:
        return answer["choices"][0]["message"]["content"]
    parts = answer.get("content")
    if parts is None:
        parts = [part for item in answer["output"] for part in item.get("content", [])]
    return "".join(part.get("text", "") for part in parts)


def _text_of_event(event: dict) -> str:
    if event.get("type") == "response.output_text.delta":
        return event["delta"]
    if event.get("type") == "content_block_delta":
        return event["delta"].get("text", "")
    return "".join(choice["delta"].get("content") or "" for choice in event.get("choices", []))
