"""An upstream that does what the row says which is being sent."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rows import Row

KEY = "sk-upstream-4f1d0c77"


class Upstream:
    """Listens on loopback. `PUT /row/NAME` chooses the row, for a client in another process."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = {row["name"]: row for row in rows}
        self.row: Row = {}
        self.closing = threading.Event()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def choose(self, name: str) -> None:
        self.row = self.rows[name]

    def close(self) -> None:
        self.closing.set()
        self.http.shutdown()
        self.http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_PUT(self) -> None:
                upstream.choose(self.path.rsplit("/", 1)[1])
                self.send_response(204)
                self.end_headers()

            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                streamed = json.loads(self.rfile.read(length)).get("stream", False)
                self.close_connection = True
                # The server goes away when it has read enough to know what it tells its client.
                with suppress(ConnectionError):
                    upstream.answer(self, upstream.row.get("upstream", {}), streamed)

        return Handler

    def answer(self, to: BaseHTTPRequestHandler, answer: Row, streamed: bool) -> None:
        match answer.get("head"):
            case "silence":
                self.closing.wait()
                return
            case "hang_up":
                return
        data, content_type = _data(answer, streamed)
        to.send_response(answer.get("status", 200))
        to.send_header("content-type", answer.get("content_type", content_type))
        for name, value in answer.get("headers", {}).items():
            to.send_header(name, value)
        # A body of unknown length, so that a cut one is known from a whole one.
        to.send_header("transfer-encoding", "chunked")
        to.end_headers()
        if data:
            to.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        match answer.get("then", "end"):
            case "end":
                to.wfile.write(b"0\r\n\r\n")
            case "silence":
                to.wfile.flush()
                self.closing.wait()


def _data(answer: Row, streamed: bool) -> tuple[bytes, str]:
    says_stream = any(name in answer for name in ("text", "events", "tail"))
    if "body" in answer:
        text, content_type = answer["body"], "application/json"
    elif says_stream:
        text = _text_event(answer["text"]) if "text" in answer else ""
        text += "".join(f"data: {event}\n\n" for event in answer.get("events", []))
        text, content_type = text + answer.get("tail", ""), "text/event-stream"
    elif streamed:
        text = _text_event("Hello", finish="stop") + "data: [DONE]\n\n"
        content_type = "text/event-stream"
    else:
        text, content_type = _completion("Hello"), "application/json"
    return text.replace("$UPSTREAM_KEY", KEY).encode(), content_type


def _text_event(text: str, finish: str | None = None) -> str:
    delta = {"role": "assistant", "content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps(_head('chat.completion.chunk') | {'choices': [choice]})}\n\n"


def _completion(text: str) -> str:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps(_head("chat.completion") | {"choices": [choice]})


def _head(kind: str) -> Row:
    return {"id": "u", "object": kind, "created": 1, "model": "m-1"}
