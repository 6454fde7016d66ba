"""A proxy that loses answers: what client libraries then send again must not run twice."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable

from server import HOST, POLL_S, READY_WITHIN_S

HEAD_END = b"\r\n\r\n"
READ_BYTES = 65536
# Closing then resets the connection.
AT_ONCE = struct.pack("ii", 1, 0)

Loses = Callable[[socket.socket, bytes, Callable[[], bytes]], None]
"""What becomes of a request: the client's connection, the request, and what asks the server and reads all."""


def reset_after_one_byte(client: socket.socket, _request: bytes, answer: Callable[[], bytes]) -> None:
    client.sendall(answer()[:1])
    reset(client)


def takes_all(client: socket.socket, _request: bytes, answer: Callable[[], bytes]) -> None:
    answer()
    client.close()


def comes_too_late(client: socket.socket, _request: bytes, answer: Callable[[], bytes]) -> None:
    """For a client with a time-out: it leaves while the answer is on its way."""
    answer()
    client.recv(1)
    client.close()


def closed_before(client: socket.socket, _request: bytes, _answer: Callable[[], bytes]) -> None:
    client.close()


def passes(client: socket.socket, _request: bytes, answer: Callable[[], bytes]) -> None:
    client.sendall(answer())
    client.close()


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
    client.close()


class Lossy:
    """In front of a server: the first `times` tries of each request end as `loses` has it, later ones pass."""

    def __init__(self, port: int, loses: Loses, times: int) -> None:
        self.port = port
        self.loses = loses
        self.times = times
        # A repetition that overtook its first try would be somebody else's question.
        self.one_after_another = threading.Lock()
        self.listener = socket.create_server((HOST, 0))
        self.url = f"http://{HOST}:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        request = whole_request(client)
        if request is None:
            client.close()
            return
        loses = self.loses if tries_before(request) < self.times else passes
        try:
            loses(client, request, lambda: self._ask(request))
        except OSError:
            # The server was killed, or the client has left.
            reset(client)

    def _ask(self, request: bytes) -> bytes:
        """The server's whole answer; its connection ends with it."""
        head, body = request.split(HEAD_END, 1)
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        with self.one_after_another, self._connect(request) as server:
            server.sendall(b"\r\n".join([*lines, b"connection: close"]) + HEAD_END + body)
            answer = b""
            while more := server.recv(READ_BYTES):
                answer += more
        return answer

    def _connect(self, request: bytes) -> socket.socket:
        """A repetition waits for a server that starts again, so that this costs the client no try."""
        until = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                return socket.create_connection((HOST, self.port))
            except ConnectionRefusedError:
                if tries_before(request) == 0 or time.monotonic() > until:
                    raise
                time.sleep(POLL_S)


def whole_request(client: socket.socket) -> bytes | None:
    """None if the client leaves before."""
    request = b""
    while True:
        if HEAD_END in request:
            head, body = request.split(HEAD_END, 1)
            if len(body) >= int(header(head, b"content-length") or 0):
                return request
        more = client.recv(READ_BYTES)
        if not more:
            return None
        request += more


def header(head: bytes, name: bytes) -> bytes | None:
    for line in head.split(b"\r\n")[1:]:
        before, _, value = line.partition(b":")
        if before.strip().lower() == name:
            return value.strip()
    return None


def tries_before(request: bytes) -> int:
    return int(header(request.split(HEAD_END, 1)[0], b"x-stainless-retry-count") or 0)
