"""What a test stands on: a server, its scripted model or another upstream, its probes, a ledger."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drive import Driven
from ledger import Ledger
from server import HOST, POLL_S, Server, create_key
from surfaces import CHAT, Surface

CLASSES = ("read", "idempotent", "queryable", "once")
SOON_S = 30.0
ANSWER_WITHIN_S = 30.0

CALL_THEN_TEXT = """
[[rule]]
when = { last_role = "user" }
calls = [{ name = "CLASS_probe", arguments = { n = 1 } }]

[[rule]]
when = { last_role = "tool" }
text = "All is done."
"""
ANSWER = "All is done."


class Unavailable(Exception):
    """The test needs something that this machine does not have."""


def calling(effect: str) -> str:
    """A script: the model calls the probe of this class, and then says `ANSWER`."""
    return CALL_THEN_TEXT.replace("CLASS", effect)


@dataclass
class Got:
    """An answer, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def turn(self) -> str:
        return self.headers["turnwright-turn"]

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Setting:
    folder: Path
    script: str = ""
    """The base URL of an upstream instead of the script."""
    upstream: str | None = None
    """More lines of the server's configuration."""
    config: str = ""
    tool_takes_s: float = 0.03
    surface: Surface = CHAT
    server: Server = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger()
        self.case = self.ledger.open("case", self.tool_takes_s)
        probes = "".join(
            f'[[probe]]\nname = "{effect}_probe"\neffect = "{effect}"\nurl = "{self.ledger.url}/case/{effect}"\n'
            for effect in CLASSES
        )
        self.folder.mkdir(parents=True)
        script = self.folder / "script.toml"
        script.write_text(self.script or '[[rule]]\ntext = "unused"\n')
        if self.upstream is None:
            upstream = f'[[upstream]]\nname = "model"\nkind = "scripted"\nscript = "{script}"\n'
        else:
            upstream = f'[[upstream]]\nname = "model"\nkind = "openai"\nbase_url = "{self.upstream}"\n'
        self.server = Server(self.folder, f"{self.config}\n{upstream}\n{probes}")
        self.key = create_key(self.server.data, "--tools", "all")
        self.server.start()

    def effects(self) -> int:
        return len(self.ledger.effects(self.case))

    def turns(self) -> list[tuple[str, str, str | None]]:
        """Of all turns: id, status and reason, oldest first."""
        return self.server.rows("SELECT id, status, reason FROM turn ORDER BY created_us")

    def final(self, turn: str) -> tuple[str, str | None]:
        """Status and reason of a turn, once it is final."""

        def ended() -> tuple[str, str | None] | None:
            _, record = self.server.turn(self.key, turn)
            return None if record["status"] == "running" else (record["status"], record["reason"])

        return soon(f"turn {turn} is final", ended)

    def client(self, timeout_s: float | None = None) -> Driven:
        return Driven(self.server.url, self.key, timeout_s)

    def body(self, *, stream: bool, text: str = "Please.", **more: object) -> bytes:
        return self.surface.body(text, stream, more)

    def open(self, body: bytes, headers: dict[str, str] | None = None) -> Open:
        return Open(self, body, headers or {})

    def post(self, body: bytes, headers: dict[str, str] | None = None) -> Got:
        return self.open(body, headers).rest()

    def close(self, *, keep: bool) -> None:
        if keep:
            self.server.kill()
        else:
            self.server.forget()


class Open:
    """A request that was sent on a connection of its own."""

    def __init__(self, setting: Setting, body: bytes, headers: dict[str, str]) -> None:
        self.connection = http.client.HTTPConnection(HOST, setting.server.port, timeout=ANSWER_WITHIN_S)
        given = {"authorization": f"Bearer {setting.key}", "content-type": "application/json", **headers}
        self.connection.request("POST", setting.surface.path, body, given)
        self.response: http.client.HTTPResponse | None = None

    def head(self) -> http.client.HTTPResponse:
        """Waits for the status and the headers."""
        if self.response is None:
            self.response = self.connection.getresponse()
        return self.response

    def turn(self) -> str:
        return self.head().headers["turnwright-turn"]

    def rest(self) -> Got:
        response = self.head()
        headers = {name.lower(): value for name, value in response.getheaders()}
        body = response.read()
        self.connection.close()
        return Got(response.status, headers, body)

    def leave(self) -> None:
        """Closes the connection, whatever is under way."""
        if self.response is not None:
            self.response.close()
        self.connection.close()


def later(work: Callable[[], Any]) -> Future[Any]:
    """Does it in a thread."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asks for the result
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def soon(what: str, look: Callable[[], Any], within_s: float = SOON_S) -> Any:
    """The first true value of `look`."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        found = look()
        if found:
            return found
        time.sleep(POLL_S)
    raise AssertionError(f"not within {within_s} s: {what}")


def equal(got: object, wanted: object, what: str = "") -> None:
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, wanted {wanted!r}")
