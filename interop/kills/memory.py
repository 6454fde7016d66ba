"""Killed for memory: eight unfinished turns of 15 MiB, and starts that may take 300 MiB.

Every start comes up and listens, and the turns end. The kernel's killer ends the process when it
takes more than its control group may have; where no group can be made, the part is left out.
"""

from __future__ import annotations

import http.server
import json
import os
import threading
import time
import urllib.request
from pathlib import Path

from server import POLL_S, Server, create_key

TURNS = 8
BODY_BYTES = 15 * 1024 * 1024
LIMIT_BYTES = 300 * 1024 * 1024
STARTS_MAX = 3
ENDED_WITHIN_S = 120.0
GROUP_LEFT_WITHIN_S = 10.0
ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Here."}, "finish_reason": "stop"}]}


class Group:
    """A control group of the first or the second version, with a limit of memory."""

    def __init__(self) -> None:
        root = Path("/sys/fs/cgroup")
        first = root / "memory"
        parent, limit = (first, "memory.limit_in_bytes") if first.is_dir() else (root, "memory.max")
        self.folder = parent / f"turnwright-kills-{os.getpid()}"
        self.folder.mkdir()
        try:
            (self.folder / limit).write_text(str(LIMIT_BYTES))
        except OSError:
            self.folder.rmdir()
            raise

    @property
    def prefix(self) -> tuple[str, ...]:
        """Runs a program in the group."""
        return ("sh", "-c", f'echo $$ > {self.folder}/cgroup.procs; exec "$@"', "sh")

    def remove(self) -> None:
        # The last process is gone before its group knows.
        until = time.monotonic() + GROUP_LEFT_WITHIN_S
        while True:
            try:
                return self.folder.rmdir()
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(POLL_S)


class Provider:
    """Reads requests and answers none before it is let."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        provider = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.say({"object": "list", "data": []})

            def do_POST(self) -> None:
                left = int(self.headers.get("content-length") or 0)
                while left > 0:
                    left -= len(self.rfile.read(min(left, 1 << 20)))
                provider.may_answer.wait()
                self.say(ANSWER)

            def say(self, answer: object) -> None:
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass  # Whoever asked was killed.

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"


def ask(server: Server, key: str, n: int) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": f"{n} " + "x" * BODY_BYTES}]}
    request = urllib.request.Request(
        f"{server.url}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"authorization": f"Bearer {key}", "content-type": "application/json"},
    )
    try:
        urllib.request.urlopen(request, timeout=300).close()
    except OSError:
        pass  # The server is killed.


def running(server: Server) -> int:
    return server.rows("SELECT count(*) FROM turn WHERE status = 'running'")[0][0]


def wait_for(server: Server, turns: int) -> bool:
    """Whether so many turns run before the server dies or it is too late."""
    until = time.monotonic() + ENDED_WITHIN_S
    while server.is_running() and time.monotonic() < until:
        if running(server) == turns:
            return True
        time.sleep(POLL_S)
    return False


def run(root: Path) -> tuple[int, int]:
    """How many checks passed and failed."""
    try:
        group = Group()
    except OSError as error:
        print(f"memory: left out, no control group can be made: {error}")
        return 0, 0
    try:
        return check(root, group)
    finally:
        group.remove()


def check(root: Path, group: Group) -> tuple[int, int]:
    folder = root / "memory"
    provider = Provider()
    config = f'[[upstream]]\nname = "waits"\nkind = "openai"\nbase_url = "{provider.url}"\n'
    server = Server(folder, config)
    key = create_key(server.data)
    wrong = []
    server.start()
    clients = [threading.Thread(target=ask, args=(server, key, n), daemon=True) for n in range(TURNS)]
    for client in clients:
        client.start()
    if not wait_for(server, TURNS):
        wrong.append(f"only {running(server)} turns were accepted")
    server.kill()
    provider.may_answer.set()
    starts = 0
    while running(server) and starts < STARTS_MAX:
        starts += 1
        try:
            server.start(prefix=group.prefix)
        except RuntimeError as error:
            wrong.append(f"start {starts} does not come up: {str(error)[:200]}")
            continue
        if not wait_for(server, 0):
            print(f"memory: start {starts} ended with {running(server)} turns left", flush=True)
        server.kill()
    statuses = server.rows("SELECT status, coalesce(reason, ''), count(*) FROM turn GROUP BY 1, 2")
    if statuses != [("completed", "", TURNS)]:
        wrong.append(f"the turns ended as {statuses}")
    for line in wrong:
        print(f"FAILED memory: {line}", flush=True)
    if not wrong:
        server.forget()
    print(f"memory: {TURNS} turns of {BODY_BYTES >> 20} MiB in {LIMIT_BYTES >> 20} MiB: {starts} starts, {statuses}")
    return (0, len(wrong)) if wrong else (1, 0)
