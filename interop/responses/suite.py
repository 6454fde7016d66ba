"""Responses that are kept, as the official OpenAI clients of Python and Node use them: continued by name, read again,
their streams resumed behind each event, made in the background, cancelled and deleted, and in a conversation with its
items; and some whose server is killed.

Both clients take the same steps and must read the same.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import agents_client
import agents_session
import client
import httpx
import openai
from server import Server, create_key

HERE = Path(__file__).parent
SCRIPT = """
[[rule]]
when = { last_role = "user", last_contains = "pay" }
text = "I have to pay."
calls = [{ name = "pay", arguments = { n = 1 } }]

[[rule]]
when = { last_role = "tool", last_contains = "denied" }
text = "As you like."

[[rule]]
when = { last_role = "tool", last_contains = "paid" }
text = "It is paid."

[[rule]]
when = { last_role = "user", last_contains = "slowly" }
text = "I thought about it."
delay_ms = 60000

[[rule]]
when = { last_role = "user", last_contains = "again" }
text = "As I said: 42."

[[rule]]
when = { last_role = "user", has_tool = "get_weather" }
calls = [{ name = "get_weather", arguments = { city = "Oslo" } }]

[[rule]]
when = { last_role = "user", has_tool = "calculate" }
text = "Let me see."
calls = [{ name = "calculate", arguments = { expression = "6 * 7" } }]

[[rule]]
text_pieces = ["It is ", "42."]
"""
QUESTION_TOLD = ["response.output_item.added", "response.output_item.done"]
BEGINNING = ["response.created", "response.queued", "response.in_progress"]
WANTED: dict[str, Any] = {
    "continued": ["As I said: 42.", True],
    "retrieved": True,
    "told": "It is 42.",
    "numbers": True,
    "resumed": [],
    "lost": ["APIStatusError", 410, "offset_lost", None],
    "begun": [True, True],
    "background": ["completed", "Let me see.It is 42."],
    "cancelled": ["cancelled", "cancelled"],
    "streamed": [BEGINNING, "response.completed"],
    "approved": ["turnwright", "pay", '{"n":1}', '{"paid":true}', True, "It is paid."],
    "denied": [QUESTION_TOLD, "This call was denied, so it was not run: no", "As you like."],
    "twice": ["ConflictError", 409, "approval_request_answered", "input"],
    "not asked": ["NotFoundError", 404, "approval_request_not_found", "input"],
    "items": ["again?"],
    "gone": ["NotFoundError", 404, "not_found", None],
    "unknown": ["NotFoundError", 404, "previous_response_not_found", "previous_response_id"],
    "made": [True, "conversation", {"topic": "sums"}],
    "of_conversation": ["Let me see.It is 42.", True],
    "added": ["message", "user", "completed", "Mind this."],
    "streamed_into": "response.completed",
    "kinds": ["message", "message", "message", "mcp_call", "message", "message", "message", "message"],
    "newest": [True, "As I said: 42."],
    "left": [True, 7],
    "changed": [{"topic": "products"}, {"topic": "products"}],
    "locked": ["BadRequestError", 400, "conversation_locked", "conversation"],
    "deleted": [True, True, "conversation.deleted"],
    "stopped": ["NotFoundError", 404, "not_found", None],
    "no_conversation": ["NotFoundError", 404, "not_found", None],
    "not_in": ["NotFoundError", 404, "conversation_not_found", "conversation"],
}
OF_AGENTS = {
    "approved, plain": [["pay"], "It is paid."],
    "denied, plain": [["pay"], "As you like."],
    "approved, streamed": [["pay"], "It is paid."],
    "denied, streamed": [["pay"], "As you like."],
}
# openai-node has no class of its own for 410.
OF_NODE = {"lost": ["APIError", 410, "offset_lost", None]}
SESSION: dict[str, Any] = {
    "answers": ["It is 42.", "As I said: 42."],
    "roles": ["user", "assistant", None, "assistant", "user", "assistant"],
    "popped": "As I said: 42.",
    "left": 5,
    "cleared": [],
}
RESUMED_WITHIN_S = 5.0
"""After a response was told, so long until a fail point counts as not reached."""
DIES_WITHIN_S = 1.0
TOLD_MIN = 10
CONFIG = """
[[upstream]]
name = "model"
kind = "scripted"
script = "{script}"

[[probe]]
name = "pay"
effect = "once"
url = "http://127.0.0.1:{port}/"
requires_approval = true
"""
FAIL_POINTS = HERE.parents[1] / "crates/tw-runtime/src/fail_point.rs"


class Payments(BaseHTTPRequestHandler):
    """The service behind the tool that has to be approved."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"paid":true}')

    def log_message(self, *_: object) -> None: ...


def node(base_url: str, key: str) -> dict[str, Any]:
    asked = json.dumps({"base_url": base_url, "key": key})
    ran = subprocess.run(["node", str(HERE / "client.mjs"), asked], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr)
    return json.loads(ran.stdout)


def compare(got: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    return [f"{what}: read {got.get(what)}, not {value}" for what, value in wanted.items() if got.get(what) != value]


def fail_points() -> list[str]:
    """The places where a server can be made to die, but for what only a turn that is taken over reaches."""
    names = re.findall(r'Self::\w+ => "(\w+)"', FAIL_POINTS.read_text())
    return [name for name in names if name != "claimed"]


def begin(asking: openai.OpenAI, said: str, streamed: bool) -> str | None:
    """The id of a response in the background; none if the server died before it was told."""
    try:
        begun = asking.responses.create(model="any", input=said, background=True, stream=streamed)
        if not streamed:
            return begun.id
        with begun:
            return next(iter(begun)).response.id
    except (openai.APIConnectionError, httpx.TransportError):
        return None


def look(asking: openai.OpenAI, name: str) -> str | None:
    try:
        return asking.responses.retrieve(name).status
    except (openai.APIConnectionError, httpx.TransportError):
        return None


def after_restart(server: Server, asking: openai.OpenAI, name: str, allowed: tuple[str, ...]) -> list[str]:
    """What is wrong with a response once its server runs again."""
    server.kill()
    server.start()
    began = time.monotonic()
    while (status := look(asking, name)) not in client.OVER and time.monotonic() < began + 2 * RESUMED_WITHIN_S:
        time.sleep(client.POLL_S)
    took = time.monotonic() - began
    if status not in allowed or took > RESUMED_WITHIN_S:
        return [f"{status} after {took:.1f} s, not one of {allowed} within {RESUMED_WITHIN_S:.0f} s"]
    return []


def settle(server: Server) -> None:
    """Waits until no turn runs, whoever was told of it: the next process is to die of its own."""
    until = time.monotonic() + RESUMED_WITHIN_S
    while server.rows("SELECT 1 FROM turn WHERE status = 'running'") and time.monotonic() < until:
        time.sleep(client.POLL_S)


def killed(server: Server, key: str) -> list[str]:
    """Of a server that is killed while the model is silent, what nobody was shown is asked again: it is slow still."""
    asking = openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)
    name = begin(asking, "slowly", streamed=True)
    wrong = after_restart(server, asking, name, ("failed",)) if name else ["the server was not there"]
    asking.close()
    return wrong


def died(server: Server, key: str) -> list[str]:
    """A server dies at each of its fail points: a response that was told goes on, or has failed where it was shown."""
    asking = openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)
    wrong, told = [], 0
    for point, streamed in itertools.product(fail_points(), (False, True)):
        server.kill()
        server.start(fail_point=point)
        name = begin(asking, "6 * 7?", streamed)
        until = time.monotonic() + DIES_WITHIN_S
        while server.is_running() and time.monotonic() < until:
            time.sleep(client.POLL_S)
        if name is None:
            server.kill()
            server.start()
        else:
            told += 1
            allowed = ("completed", "failed") if streamed else ("completed",)
            wrong += [f"{point}, streamed {streamed}: {what}" for what in after_restart(server, asking, name, allowed)]
        settle(server)
    asking.close()
    if told < TOLD_MIN:
        wrong.append(f"only {told} responses were told before their server died")
    return wrong


def main() -> int:
    began, failed = time.monotonic(), 0
    os.environ.setdefault("NODE_NO_WARNINGS", "1")
    root = Path(tempfile.mkdtemp(prefix="turnwright-responses-"))
    script = root / "script.toml"
    script.write_text(SCRIPT)
    service = ThreadingHTTPServer(("127.0.0.1", 0), Payments)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    server = Server(root / "server", CONFIG.format(script=script, port=service.server_port))
    key = create_key(server.data, "--tools", "all")
    server.start()
    base_url = f"{server.url}/v1"
    steps = {
        "openai, python": lambda: compare(client.drive(base_url, key), WANTED),
        "openai, node": lambda: compare(node(base_url, key), WANTED | OF_NODE),
        "openai-agents": lambda: compare(agents_client.drive(base_url, key), OF_AGENTS),
        "OpenAI Agents SDK, a session": lambda: compare(agents_session.drive(base_url, key), SESSION),
        "a server that is killed": lambda: killed(server, key),
        "a server that dies at each fail point": lambda: died(server, key),
    }
    try:
        for name, step in steps.items():
            wrong = step()
            failed += bool(wrong)
            print(f"FAILED  {name}" if wrong else f"ok      {name}")
            for line in wrong:
                print(f"    {line}")
    finally:
        server.forget()
        service.shutdown()
        script.unlink()
        root.rmdir()
    print(f"{len(steps) - failed} passed, {failed} failed in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
