"""A listener that the server's probes send to: it writes every effect into a ledger.

A path is `/CASE/TOOL`. POST is an effect, recorded when it has arrived and answered after a
while; `GET ?reference=KEY` tells whether an effect with that key happened.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from server import HOST

ANSWER_AFTER_S = 0.03


@dataclass(frozen=True)
class Effect:
    tool: str
    key: str
    """Which of the turn's calls: the argument `n`."""
    n: int
    at: float

    @property
    def effect_class(self) -> str:
        """Tools are named for it."""
        return self.tool.removesuffix("_probe")


@dataclass
class Case:
    effects: list[Effect] = field(default_factory=list)
    look_ups: int = 0
    answer_after_s: float = ANSWER_AFTER_S
    """Called with each effect as it arrives, before the answer."""
    watch: Callable[[Effect], None] | None = None


class Ledger:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cases: dict[str, Case] = {}
        ledger = self

        class Handler(_Handler):
            book = ledger

        self._server = _Listener((HOST, 0), Handler)
        self.url = f"http://{HOST}:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def open(self, name: str, answer_after_s: float = ANSWER_AFTER_S) -> Case:
        with self._lock:
            return self._cases.setdefault(name, Case(answer_after_s=answer_after_s))

    def case(self, name: str) -> Case | None:
        with self._lock:
            return self._cases.get(name)

    def add(self, case: Case, effect: Effect) -> None:
        with self._lock:
            case.effects.append(effect)

    def effects(self, case: Case) -> list[Effect]:
        with self._lock:
            return list(case.effects)

    def has(self, case: Case, key: str) -> bool:
        with self._lock:
            case.look_ups += 1
            return any(effect.key == key for effect in case.effects)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A server that is killed breaks its connections; that is what this is for."""


class _Handler(BaseHTTPRequestHandler):
    book: Ledger
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        case, tool = self._case()
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        if case is None:
            self._answer(404, {"error": "no such case"})
            return
        effect = Effect(
            tool=tool,
            key=self.headers.get("idempotency-key", ""),
            n=int(json.loads(body).get("n", 0)),
            at=time.monotonic(),
        )
        self.book.add(case, effect)
        if case.watch is not None:
            case.watch(effect)
        time.sleep(case.answer_after_s)
        self._answer(200, {"done": effect.n})

    def do_GET(self) -> None:
        case, _ = self._case()
        reference = parse_qs(urlsplit(self.path).query).get("reference", [""])[0]
        if case is not None and self.book.has(case, reference):
            self._answer(200, {"done": "earlier"})
        else:
            self._answer(404, {"error": "unknown reference"})

    def _case(self) -> tuple[Case | None, str]:
        parts = urlsplit(self.path).path.strip("/").split("/")
        if len(parts) != 2:
            return None, ""
        return self.book.case(parts[0]), parts[1]

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass
