"""A model provider with everything but chat. It keeps what it was sent."""

from __future__ import annotations

import base64
import json
import struct
import threading
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VECTOR = [0.5, -2.0, 0.25]
SOUND = bytes(range(256)) * 256
"""Bytes of every value, in more than one read."""
IMAGE = base64.b64encode(b"\x89PNG fake").decode()
EVENTS = [
    {"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [
        {"index": 0, "text": text, "finish_reason": None, "logprobs": None}]}
    for text in ("one ", "two")
] + [{"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [],
      "usage": {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}}]


def form_of(content_type: str, body: bytes) -> dict[str, bytes]:
    """The parts of a form by name, read by another program than the server's."""
    from email import message_from_bytes

    whole = message_from_bytes(b"content-type: " + content_type.encode() + b"\r\n\r\n" + body)
    parts: dict[str, bytes] = {}
    for part in whole.get_payload():
        assert isinstance(part, Message)
        name = part.get_param("name", header="content-disposition")
        parts[str(name)] = part.get_payload(decode=True)
    return parts


class Provider:
    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:  # noqa: N802 - the name that the base class calls
                body = self.rfile.read(int(self.headers["content-length"]))
                content_type = self.headers["content-type"]
                sent = json.loads(body) if "json" in content_type else form_of(content_type, body)
                provider.asked.append((self.path, sent))
                kind, answer = provider.answer(self.path, sent)
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for part in answer:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.write(b"0\r\n\r\n")

            def do_GET(self) -> None:  # noqa: N802 - as above
                body = b'{"object":"list","data":[]}'
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self.http.server_port}/v1"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def answer(self, path: str, sent: dict[str, Any]) -> tuple[str, list[bytes]]:
        def plain(body: Any) -> tuple[str, list[bytes]]:
            return "application/json", [json.dumps(body).encode()]

        match path.removeprefix("/v1/"):
            case "embeddings":
                packed = base64.b64encode(struct.pack("<3f", *VECTOR)).decode()
                vector: Any = packed if sent.get("encoding_format") == "base64" else VECTOR
                data = [{"object": "embedding", "index": 0, "embedding": vector}]
                usage = {"prompt_tokens": 3, "total_tokens": 3}
                return plain({"object": "list", "data": data, "model": sent["model"], "usage": usage})
            case "completions":
                events = [f"data: {json.dumps(event)}\n\n".encode() for event in EVENTS]
                return "text/event-stream", [*events, b"data: [DONE]\n\n"]
            case "moderations":
                result = {"flagged": True, "categories": {}, "category_scores": {}, "category_applied_input_types": {}}
                return plain({"id": "m", "model": "omni", "results": [result]})
            case "images/generations" | "images/edits":
                usage = {"input_tokens": 7, "output_tokens": 9, "total_tokens": 16,
                         "input_tokens_details": {"text_tokens": 7, "image_tokens": 0}}
                return plain({"created": 1, "data": [{"b64_json": IMAGE}], "usage": usage})
            case "audio/speech":
                return "audio/mpeg", [SOUND[at : at + 5000] for at in range(0, len(SOUND), 5000)]
            case "audio/transcriptions" | "audio/translations":
                heard = "all of it" if sent["file"] == SOUND else "something else"
                return plain({"text": heard, "usage": {"type": "duration", "seconds": 3}})
        return plain({})

    def close(self) -> None:
        self.http.shutdown()
