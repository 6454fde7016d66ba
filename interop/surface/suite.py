"""What the official clients make of limits that are reached, and of conversations.

Every function named `test_…` runs with each client, on a server of its own.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from client import CLIENTS, Result, Wanted, do
from server import POLL_S, Server, create_key

WORKERS = 4
SAID = "Here you are."
SLOW_MS = 60_000
"""Longer than any test takes; it is cancelled before."""
PER_MINUTE = 6
"""One comes back every ten seconds, in which a slow machine has sent them all."""
RESET = re.compile(r"^(\d+h)?(\d+m)?(\d+(\.\d+)?s|\d+ms)$")
LIMIT_HEADERS = tuple(f"x-ratelimit-{name}-requests" for name in ("limit", "remaining", "reset"))


class Place:
    """A server and one client."""

    def __init__(self, folder: Path, client: str) -> None:
        self.folder = folder
        self.client = client
        self.server: Server | None = None

    def serve(self, config: str = "", *key: str) -> None:
        self.folder.mkdir(parents=True)
        script = self.folder / "script.toml"
        script.write_text(
            f'[[rule]]\nwhen = {{ last_contains = "slowly" }}\ntext = "Slow."\ndelay_ms = {SLOW_MS}\n\n'
            f'[[rule]]\ntext = "{SAID}"\n'
        )
        upstream = f'[[upstream]]\nname = "model"\nkind = "scripted"\nscript = "{script}"\n'
        self.server = Server(self.folder, f"{config}\n{upstream}")
        self.key = create_key(self.server.data, *key)
        self.server.start()

    def do(
        self,
        what: str,
        *,
        retries: int | None = 0,
        key: str | None = None,
        conversation: str = "",
        answered: Callable[[int], None] = lambda _: None,
    ) -> Result:
        assert self.server is not None
        wanted = Wanted(what, f"{self.server.url}/v1", key or self.key, retries, conversation)
        return do(self.client, wanted, answered)

    def post(self, text: str, **headers: str) -> tuple[int, dict[str, Any]]:
        assert self.server is not None
        body = {"model": "any", "messages": [{"role": "user", "content": text}]}
        return self.server.call("POST", "/v1/chat/completions", self.key, body, headers)

    @contextmanager
    def busy(self) -> Iterator[Callable[[int], None]]:
        """While a turn runs; it ends when what this gives is called, or with the block."""
        assert self.server is not None
        server = self.server
        slow = threading.Thread(target=lambda: self.post("slowly"))
        slow.start()
        while not (running := server.rows("SELECT id FROM turn WHERE status = 'running'")):
            time.sleep(POLL_S)

        def free(_: int) -> None:
            server.call("POST", f"/v1/turns/{running[0][0]}/cancel", self.key)

        try:
            yield free
        finally:
            free(0)
            slow.join()


def equal(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise AssertionError(f"{what} is {got!r}, not {wanted!r}")


def raised(got: Result, name: str, status: int, kind: str, code: str) -> None:
    equal("the error", [got.get(field) for field in ("class", "status", "type", "code")], [name, status, kind, code])
    if not (got["request_id"] or "").startswith("req_"):
        raise AssertionError(f"the request id is {got['request_id']!r}")


def test_a_limit_of_requests_is_waited_for(place: Place) -> None:
    place.serve("", "--requests-per-minute", str(PER_MINUTE))
    for _ in range(PER_MINUTE):
        equal("the status", place.post("Hi")[0], 200)
    got = place.do("ask", retries=None)
    equal("the answer", (got["class"], got.get("said")), (None, SAID))
    equal("the statuses", got["statuses"], [429, 200])
    # What comes back is due within ten seconds, of which some have passed.
    if not 0.9 <= got["took_s"] < 20:
        raise AssertionError(f"it took {got['took_s']:.1f} s")


def test_a_limit_of_requests_is_told_to_who_does_not_wait(place: Place) -> None:
    place.serve("", "--requests-per-minute", "1")
    got = place.do("ask")
    equal("the answer", (got["class"], got.get("said")), (None, SAID))
    headers = [got["headers"].get(name) for name in LIMIT_HEADERS]
    equal("the limit and what is left", headers[:2], ["1", "0"])
    got = place.do("ask")
    raised(got, "RateLimitError", 429, "rate_limit_error", "rate_limit_exceeded")
    equal("the statuses", got["statuses"], [429])
    headers = [got["headers"].get(name) for name in LIMIT_HEADERS]
    equal("the limit and what is left", headers[:2], ["1", "0"])
    if not RESET.match(headers[2] or ""):
        raise AssertionError(f"it is whole again in {headers[2]!r}")
    if not 1 <= int(got["headers"]["retry-after"]) <= 60:
        raise AssertionError(f"it may come again in {got['headers']['retry-after']!r}")


def test_a_limit_of_turns_at_once_is_waited_for(place: Place) -> None:
    place.serve("", "--concurrency", "1")
    with place.busy():
        refused = place.do("ask")
        raised(refused, "RateLimitError", 429, "rate_limit_error", "rate_limit_exceeded")
        equal("retry-after", refused["headers"].get("retry-after"), "1")
    with place.busy() as free:
        got = place.do("ask", retries=None, answered=free)
    equal("the answer", (got["class"], got.get("said")), (None, SAID))
    equal("the statuses", got["statuses"], [429, 200])
    if got["took_s"] < 0.9:
        raise AssertionError(f"it came again after {got['took_s']:.1f} s")


def test_a_full_server_is_a_server_error_and_waited_for(place: Place) -> None:
    place.serve("[server]\nturns_max = 1\n")
    with place.busy():
        refused = place.do("ask")
        raised(refused, "InternalServerError", 503, "server_error", "overloaded")
        equal("retry-after", refused["headers"].get("retry-after"), "1")
    with place.busy() as free:
        got = place.do("ask", retries=None, answered=free)
    equal("the answer", (got["class"], got.get("said")), (None, SAID))
    equal("the statuses", got["statuses"], [503, 200])
    if got["took_s"] < 0.9:
        raise AssertionError(f"it came again after {got['took_s']:.1f} s")


def test_a_conversation_is_read_and_deleted(place: Place) -> None:
    place.serve()
    name = "with a friend/1"
    equal("the status", place.post("Hi", **{"turnwright-conversation": name})[0], 200)
    read = place.do("retrieve", conversation=name)
    equal("the read", read["class"], None)
    said = read["said"]
    equal("the conversation", (said["id"], said["object"], said["metadata"]), (name, "conversation", {}))
    if abs(said["created_at"] - time.time()) > 60:
        raise AssertionError(f"it began at {said['created_at']}")
    other = create_key(place.server.data, "--scope", "chat")
    for what in ("retrieve", "delete"):
        got = place.do(what, key=other, conversation=name)
        raised(got, "NotFoundError", 404, "invalid_request_error", "not_found")
    deleted = place.do("delete", conversation=name)
    equal("what is deleted", deleted.get("said"), {"id": name, "object": "conversation.deleted", "deleted": True})
    for what in ("retrieve", "delete"):
        got = place.do(what, conversation=name)
        raised(got, "NotFoundError", 404, "invalid_request_error", "not_found")


def run(folder: Path, test: Any, client: str) -> str:
    """`ok`, or what went wrong."""
    place = Place(folder, client)
    try:
        test(place)
        return "ok"
    except Exception as error:  # noqa: BLE001 - whatever it was, the others still run
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {error}"
    finally:
        if place.server is not None:
            place.server.kill()


def main() -> int:
    words = sys.argv[1:]
    named = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    chosen = [
        (name, test, client)
        for name, test in named
        for client in CLIENTS
        if not words or any(word in f"{name}-{client}" for word in words)
    ]
    root = Path(tempfile.mkdtemp(prefix="turnwright-surface-"))
    began = time.monotonic()
    # Short, since a socket's path may not be long.
    cases = [(root / str(at), test, client) for at, (_, test, client) in enumerate(chosen)]
    with ThreadPoolExecutor(WORKERS) as workers:
        verdicts = list(workers.map(lambda case: run(*case), cases))
    failed = 0
    for (name, _, client), verdict in zip(chosen, verdicts, strict=True):
        failed += verdict != "ok"
        print(f"ok      {name}, {client}" if verdict == "ok" else f"FAILED  {name}, {client}\n    {verdict}")
    if failed == 0:
        shutil.rmtree(root, ignore_errors=True)
    else:
        print(f"kept in {root}")
    print(f"{len(chosen) - failed} passed, {failed} failed in {time.monotonic() - began:.0f} s")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
