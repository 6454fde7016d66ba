"""A model provider that answers with recordings."""

import json
import random
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Sizes of the pieces that a stream is cut into, in bytes: within a line, a character, an escape.
PIECE_BYTES_MIN = 1
PIECE_BYTES_MAX = 61


class Reply:
    """An answer as it is sent."""

    def __init__(self, body, content_type, status=200, in_pieces=False):
        self.body = body
        self.content_type = content_type
        self.status = status
        self.in_pieces = in_pieces

    @classmethod
    def of(cls, recording, in_pieces=False):
        return cls(recording.body, recording.content_type, recording.status, in_pieces)

    def pieces(self):
        """The body cut at places that depend on nothing but the body's length."""
        if not self.in_pieces:
            return [self.body]
        dice, at, cut = random.Random(len(self.body)), 0, []
        while at < len(self.body):
            size = dice.randint(PIECE_BYTES_MIN, PIECE_BYTES_MAX)
            cut.append(self.body[at : at + size])
            at += size
        return cut


class Upstream:
    """Serves `replies(model, n)`, where `n` counts the requests for that model from 0.

    The model's name says which recording is wanted, so that requests of several clients at once
    stay apart. Every request's body is kept in `asked`, by model.
    """

    def __init__(self, replies):
        self._replies = replies
        self._lock = threading.Lock()
        self.asked = {}
        self._http = _listen(_handler(self._serve))
        self.base_url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def _serve(self, handler, body):
        request = json.loads(body)
        with self._lock:
            asked = self.asked.setdefault(request["model"], [])
            asked.append(request)
            n = len(asked) - 1
        reply = self._replies(request["model"], n)
        handler.send_response(reply.status)
        handler.send_header("content-type", reply.content_type)
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        for piece in reply.pieces():
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        handler.wfile.write(b"0\r\n\r\n")

    def close(self):
        self._http.shutdown()
        self._http.server_close()


class Listener:
    """What a tool posts to: keeps (tool, body) and answers with a short text made of the body."""

    def __init__(self, says=lambda body: "done"):
        self._says = says
        self._lock = threading.Lock()
        self._ran = []
        self._http = _listen(_handler(self._serve))
        self.base_url = f"http://127.0.0.1:{self._http.server_port}"

    def _serve(self, handler, body):
        with self._lock:
            self._ran.append((handler.path.removeprefix("/"), body.decode()))
        said = self._says(body.decode()).encode()
        handler.send_response(200)
        handler.send_header("content-type", "text/plain")
        handler.send_header("content-length", str(len(said)))
        handler.end_headers()
        handler.wfile.write(said)

    def take(self):
        """What ran since the last time this was asked."""
        with self._lock:
            ran, self._ran = self._ran, []
        return ran

    def close(self):
        self._http.shutdown()
        self._http.server_close()


def _handler(serve):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):  # noqa: N802 (the base class asks for this name)
            body = self.rfile.read(int(self.headers["content-length"]))
            try:
                serve(self, body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, *_):
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        # A server that ends resets connections that wait for a next request.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def _listen(handler):
    http = _Server(("127.0.0.1", 0), handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    return http
