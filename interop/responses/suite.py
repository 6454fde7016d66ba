"""Responses that are kept, as the official OpenAI clients of Python and Node use them: continued by name, read again,
their streams resumed behind each event, made in the background, cancelled and deleted; and one whose server is killed.

Both clients take the same steps and must read the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import client
import openai
from server import Server, create_key

HERE = Path(__file__).parent
SCRIPT = """
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
    "items": ["again?"],
    "gone": ["NotFoundError", 404, "not_found", None],
    "unknown": ["NotFoundError", 404, "previous_response_not_found", "previous_response_id"],
}
# openai-node has no class of its own for 410.
OF_NODE = {"lost": ["APIError", 410, "offset_lost", None]}
RESUMED_WITHIN_S = 5.0


def node(base_url: str, key: str) -> dict[str, Any]:
    asked = json.dumps({"base_url": base_url, "key": key})
    ran = subprocess.run(["node", str(HERE / "client.mjs"), asked], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr)
    return json.loads(ran.stdout)


def compare(got: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    return [f"{what}: read {got.get(what)}, not {value}" for what, value in wanted.items() if got.get(what) != value]


def killed(server: Server, key: str) -> list[str]:
    """A response in the background whose server is killed ends in time after the restart."""
    asking = openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0)
    begun = asking.responses.create(model="any", input="slowly", background=True, stream=True)
    name = next(iter(begun)).response.id
    begun.close()
    server.kill()
    server.start()
    began = time.monotonic()
    response = asking.responses.retrieve(name)
    while response.status not in client.OVER and time.monotonic() < began + 2 * RESUMED_WITHIN_S:
        time.sleep(client.POLL_S)
        response = asking.responses.retrieve(name)
    took = time.monotonic() - began
    asking.close()
    if response.status != "failed" or took > RESUMED_WITHIN_S:
        return [f"{response.status} after {took:.1f} s, not failed within {RESUMED_WITHIN_S:.0f} s"]
    return []


def main() -> int:
    began, failed = time.monotonic(), 0
    os.environ.setdefault("NODE_NO_WARNINGS", "1")
    root = Path(tempfile.mkdtemp(prefix="turnwright-responses-"))
    script = root / "script.toml"
    script.write_text(SCRIPT)
    server = Server(root / "server", f'[[upstream]]\nname = "model"\nkind = "scripted"\nscript = "{script}"\n')
    key = create_key(server.data, "--tools", "all")
    server.start()
    base_url = f"{server.url}/v1"
    steps = {
        "openai, python": lambda: compare(client.drive(base_url, key), WANTED),
        "openai, node": lambda: compare(node(base_url, key), WANTED | OF_NODE),
        "a server that is killed": lambda: killed(server, key),
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
        script.unlink()
        root.rmdir()
    print(f"{len(steps) - failed} passed, {failed} failed in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
