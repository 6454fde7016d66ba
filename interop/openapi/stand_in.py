"""A local server in place of a real service: it takes what the service's description allows.

A request that the description refuses is answered with 400 and kept with what is wrong about it.
The answers are examples of the description itself where it has some, and must be valid, too.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from openapi_core import Config, OpenAPI
from openapi_core.datatypes import RequestParameters
from werkzeug.datastructures import Headers, ImmutableMultiDict

HOST = "127.0.0.1"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
PROBLEM_CHARS_MAX = 600


@dataclass
class Received:
    """A request as it came, and as the validator wants to see it."""

    host_url: str
    method: str
    # As sent, still percent-encoded.
    path: str
    query: list[tuple[str, str]]
    headers: list[tuple[str, str]]
    body: bytes
    # What the description says against it.
    problem: str | None = None

    def __post_init__(self) -> None:
        self.parameters = RequestParameters(
            query=ImmutableMultiDict(self.query), header=Headers(self.headers)
        )

    @property
    def content_type(self) -> str:
        return self.header("content-type") or ""

    def header(self, name: str) -> str | None:
        """All values of it, as one."""
        values = [value for key, value in self.headers if key.lower() == name]
        return ", ".join(values) if values else None


@dataclass
class Answer:
    """What the service says, in the form that the validator wants."""

    status_code: int
    content_type: str
    data: bytes

    @property
    def headers(self) -> dict[str, str]:
        return {"content-type": self.content_type} if self.data else {}


class StandIn:
    """Listens on a port of its own, so that every service is another host."""

    def __init__(self, origin: str, description: dict[str, Any]) -> None:
        self._lock = threading.Lock()
        self._received: list[Received] = []
        self._answer: Answer | None = None
        self._http = ThreadingHTTPServer((HOST, 0), _handler(self))
        self._http.daemon_threads = True
        self.place = f"{HOST}:{self._http.server_port}"
        self.url = f"http://{self.place}"
        self._description = description
        _move_servers(description, origin, self.url)
        _read_oauth(description)
        # Whether the description itself is well made is its makers' concern.
        self._openapi = OpenAPI.from_dict(description, config=Config(spec_validator_cls=None))
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def example(self, operation: str, status: int, content_type: str, name: str) -> Any:
        """An example answer of the description: by its name, or its schema's if that is empty."""
        method, path = operation.split(" ")
        answer = self._resolved("paths", path, method.lower(), "responses", str(status))
        content = answer["content"][content_type]
        if not name:
            return self._followed(content["schema"])["example"]
        return self._followed(content["examples"][name])["value"]

    def answer_with(self, answer: Answer) -> None:
        """What every valid request is answered with from now on."""
        with self._lock:
            self._answer = answer

    def take(self) -> list[Received]:
        """What was received since the last time this was asked."""
        with self._lock:
            received, self._received = self._received, []
        return received

    def handle(self, received: Received) -> Answer:
        # One at a time, as nobody says that the validator can be shared.
        with self._lock:
            self._received.append(received)
            errors = list(self._openapi.iter_request_errors(received))
            if not errors and self._answer is None:
                errors = [AssertionError("no answer was chosen")]
            if not errors:
                errors = list(self._openapi.iter_response_errors(received, self._answer))
            if not errors:
                return self._answer
            received.problem = "; ".join(map(_told, errors))[:PROBLEM_CHARS_MAX]
            refusal = json.dumps({"refused": received.problem}).encode()
            return Answer(400, JSON, refusal)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def _resolved(self, *keys: str) -> Any:
        value = self._description
        for key in keys:
            value = self._followed(value[key])
        return value

    def _followed(self, value: Any) -> Any:
        while isinstance(value, dict) and "$ref" in value:
            _, *keys = value["$ref"].split("/")
            value = self._description
            for key in keys:
                value = value[key.replace("~1", "/").replace("~0", "~")]
        return value


def _move_servers(description: dict[str, Any], origin: str, url: str) -> None:
    """Puts the stand-in in the place of the real server, whose base path stays."""
    for holder in (description, *description["paths"].values()):
        for server in holder.get("servers", []):
            if server["url"].startswith(origin):
                server["url"] = url + server["url"].removeprefix(origin)


def _read_oauth(description: dict[str, Any]) -> None:
    """Wants a bearer for OAuth, as RFC 6750 sends its tokens; the validator would want nothing."""
    schemes = description.get("components", {}).get("securitySchemes", {})
    for name, scheme in schemes.items():
        if scheme["type"] == "oauth2":
            schemes[name] = {"type": "http", "scheme": "bearer"}


def _told(error: BaseException) -> str:
    """An error with its causes and what they say about the value."""
    told = []
    cause: BaseException | None = error
    while cause is not None:
        told.append(f"{type(cause).__name__}: {cause}")
        told += [one.message for one in getattr(cause, "schema_errors", [])]
        cause = cause.__cause__
    return " < ".join(told)


def _handler(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: object) -> None:
            pass

        def answer(self) -> None:
            path, _, query = self.path.partition("?")
            received = Received(
                host_url=stand_in.url,
                method=self.command.lower(),
                path=path,
                query=parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)),
                headers=self.headers.items(),
                body=self.rfile.read(int(self.headers.get("content-length", 0))),
            )
            answer = stand_in.handle(received)
            self.send_response(answer.status_code)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status_code != 204:
                self.send_header("content-length", str(len(answer.data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.data)

    for method in METHODS:
        setattr(Handler, f"do_{method}", Handler.answer)
    return Handler
