"""What is on disk before anything leaves: seen from outside, in the server's system calls.

One turn with one `once` call runs under strace. When the tool is first asked, and when a plain
answer leaves, nothing that was written to the database's log may be unsynced. A stream's first
byte needs the accept alone: what its later rounds write may be under way by then.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from drive import Driven
from ledger import Effect, Ledger
from server import POLL_S, Server, create_key

CALLS = "read,readv,recvfrom,recvmsg,write,writev,pwrite64,sendto,sendmsg,fsync,fdatasync,connect"
# The server reads so many bytes first, to tell HTTP/1 from HTTP/2.
REQUEST = "POST /v1/chat/completion"
FIRST_TEXT = "One moment."
LAST_TEXT = "Done and written down."
SCRIPT = f"""
[[rule]]
when = {{ last_role = "user" }}
text = "{FIRST_TEXT}"
calls = [{{ name = "once_probe", arguments = {{ n = 1 }} }}]

[[rule]]
when = {{ last_role = "tool" }}
text = "{LAST_TEXT}"
"""
LINE = re.compile(r"^(?P<at>\d+\.\d+) (?P<call>\w+)\((?P<rest>.*)\)\s+= (?P<result>-?\d+).*<(?P<took>[\d.]+)>$")


@dataclass(frozen=True)
class Call:
    began: float
    ended: float
    name: str
    rest: str
    result: int


def run(root: Path) -> tuple[int, int]:
    if shutil.which("strace") is None:
        print("fsync: strace is not installed; what leaves before it is on disk is not checked")
        return (0, 1) if os.environ.get("TURNWRIGHT_REQUIRE") == "1" else (0, 0)
    failed = 0
    for stream in (True, False):
        form = "stream" if stream else "plain"
        wrong = one_turn(root / f"fsync-{form}", form, stream=stream)
        for line in wrong:
            print(f"FAILED fsync, {form}: {line}")
        failed += bool(wrong)
    return 2 - failed, failed


def one_turn(folder: Path, form: str, *, stream: bool) -> list[str]:
    ledger = Ledger()
    case = ledger.open(f"fsync-{form}")
    server = Server(
        folder,
        f"""
[[upstream]]
name = "scripted"
kind = "scripted"
script = "{folder / "script.toml"}"

[[probe]]
name = "once_probe"
effect = "once"
url = "{ledger.url}/fsync-{form}/once_probe"
""",
    )
    (folder / "script.toml").write_text(SCRIPT)
    key = create_key(server.data, "--tools", "all")
    wrong: list[str] = []

    def seen_by_tool(effect: Effect) -> None:
        sql = "SELECT status, started_us IS NOT NULL FROM tool_call WHERE idempotency_key = ?"
        rows = server.rows(sql, effect.key)
        if rows != [("processing", 1)]:
            wrong.append(f"the tool was asked while its call's row was {rows}")

    case.watch = seen_by_tool
    trace = folder / "trace"
    strace = ("strace", "-ff", "-ttt", "-T", "-y", "-s", "64", "-e", f"trace={CALLS}", "-o", str(trace))
    server.start(prefix=strace)
    try:
        note_key_use(server, key)
        driven = Driven(server.url, key)
        ended = driven.ask("Please.", stream=stream)
        driven.close()
    finally:
        stop_traced(server)
    if ended.outcome != "answer" or ended.text != f"{FIRST_TEXT}\n\n{LAST_TEXT}":
        wrong.append(f"the answer was {ended}")
    if len(ledger.effects(case)) != 1:
        wrong.append(f"{len(ledger.effects(case))} effects")
    return wrong + check(read_trace(folder), form)


def note_key_use(server: Server, key: str) -> None:
    """The note that a key was used is a write of its own; afterwards the accept comes first."""
    server.turn(key, "none")
    until = time.monotonic() + 5
    while time.monotonic() < until and server.rows("SELECT 1 FROM api_key WHERE last_used_us IS NULL"):
        time.sleep(POLL_S)


def stop_traced(server: Server) -> None:
    """SIGTERM to the traced process itself; strace ends with it."""
    assert server.process is not None
    strace = server.process.pid
    for child in Path(f"/proc/{strace}/task/{strace}/children").read_text().split():
        os.kill(int(child), signal.SIGTERM)
    server.wait(20)


def read_trace(folder: Path) -> list[Call]:
    calls = []
    for file in folder.glob("trace.*"):
        for line in file.read_text(errors="replace").splitlines():
            found = LINE.match(line)
            if found is None:
                continue
            began = float(found["at"])
            ended = began + float(found["took"])
            calls.append(Call(began, ended, found["call"], found["rest"], int(found["result"])))
    return sorted(calls, key=lambda call: call.began)


def check(calls: list[Call], form: str) -> list[str]:
    request = first(calls, ("read", "readv", "recvfrom", "recvmsg"), REQUEST)
    answer = first(calls, ("write", "writev", "sendto", "sendmsg"), "HTTP/1.1 200", after=request)
    tool = first(calls, ("write", "writev", "sendto", "sendmsg"), "POST /fsync-", after=request)
    if request is None or answer is None or tool is None:
        return [f"the trace lacks the request, the answer or the tool's request: {(request, answer, tool)}"]
    wal = [call for call in calls if "turnwright.db-wal" in call.rest and call.began > request.ended]
    wrong = []
    for what, at, all_synced, syncs_min in (
        # The accept; the round with its call and the call's start, which may be one write.
        ("request to the tool", tool, True, 2),
        ("byte of the answer", answer, form == "plain", 1),
    ):
        written = [call for call in wal if call.name == "pwrite64" and call.began < at.began]
        synced = [c for c in wal if c.name in ("fsync", "fdatasync") and c.result == 0 and c.ended < at.began]
        if not written or len(synced) < syncs_min:
            wrong.append(f"{len(synced)} syncs of the log before the first {what}; {syncs_min} are needed")
        elif written[0].ended > synced[0].began:
            wrong.append(f"the log was not written before its first sync, before the first {what}")
        elif all_synced and written[-1].ended > synced[-1].began:
            wrong.append(f"the first {what} left while the log held unsynced writes")
        else:
            lead_ms = (at.began - synced[-1].ended) * 1000
            print(
                f"fsync, {form}: {len(written)} writes and {len(synced)} syncs of the log before the first {what},"
                f" the last {lead_ms:.1f} ms before it"
            )
    return wrong


def first(calls: list[Call], names: tuple[str, ...], text: str, after: Call | None = None) -> Call | None:
    for call in calls:
        if call.name in names and text in call.rest and (after is None or call.began >= after.ended):
            return call
    return None
