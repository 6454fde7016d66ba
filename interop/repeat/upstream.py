"""An upstream that notices when its client leaves.

The first round says words slowly and then calls `once_probe`; a request with a tool result gets a
last text. `flood` sends one long text as fast as it is taken.
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from server import HOST

WORDS = 20
WORD_EVERY_S = 0.1
FLOOD_DELTAS = 1500
FLOOD_DELTA_BYTES = 8192
SEND_BYTES = 65536
LAST_TEXT = "The end."


class Upstream:
    def __init__(self, *, flood: bool = False) -> None:
        self.flood = flood
        self.requests = 0
        """Set when the other side closed a connection while an answer was under way."""
        self.was_left = threading.Event()
        self.answered_whole = threading.Event()
        upstream = self

        class Handler(_Handler):
            model = upstream

        server = _Server((HOST, 0), Handler)
        self.url = f"http://{HOST}:{server.server_address[1]}/v1"
        threading.Thread(target=server.serve_forever, daemon=True).start()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Broken connections are what is looked for."""


class _Handler(BaseHTTPRequestHandler):
    model: Upstream
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.model.requests += 1
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        after_tool = body["messages"][-1]["role"] == "tool"
        self.close_connection = True
        # Else the kernel takes so much that the other side's leaving is never met.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            if self.model.flood:
                for _ in range(FLOOD_DELTAS):
                    self._delta({"content": "x" * FLOOD_DELTA_BYTES})
                self._finish("stop")
            elif after_tool:
                self._delta({"content": LAST_TEXT})
                self._finish("stop")
            else:
                self._slowly()
        except OSError:
            self.model.was_left.set()
        else:
            self.model.answered_whole.set()

    def _slowly(self) -> None:
        for word in range(WORDS):
            self._delta({"content": f"word{word} "})
            self._check_present()
            time.sleep(WORD_EVERY_S)
        call = {"id": "call_1", "type": "function", "function": {"name": "once_probe", "arguments": '{"n":1}'}}
        self._delta({"tool_calls": [{"index": 0, **call}]})
        self._finish("tool_calls")

    def _check_present(self) -> None:
        readable, _, _ = select.select([self.connection], [], [], 0)
        if readable and self.connection.recv(1, socket.MSG_PEEK) == b"":
            raise ConnectionResetError

    def _delta(self, delta: dict[str, object], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "any", "choices": [choice]}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())

    def _finish(self, reason: str) -> None:
        self._delta({}, reason)
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        pass
