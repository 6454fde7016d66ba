"""Chat message histories of LangChain that the server keeps, in Python and in JavaScript: what turns said is read into
Human, AI and Tool messages; messages are added and read again; LangGraph's `ToolNode` runs the calls of a history.

Both languages take the same steps and must read the same.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import history
import httpx
from server import Server

HERE = Path(__file__).parent
CLIENTS = HERE.parents[1] / "clients"
SCRIPT = """
[[rule]]
when = { last_role = "tool" }
text = "It is 42, and the other is no sum."

[[rule]]
when = { last_role = "user", has_tool = "calculate", last_contains = "sums" }
text = "Let me see."
calls = [
  { name = "calculate", arguments = { expression = "6 * 7" } },
  { name = "calculate", arguments = { expression = "6 *" } },
]

[[rule]]
when = { last_role = "user", last_contains = "again" }
text = "As I said: 42."

[[rule]]
text = "It is 42."
"""
CONFIG = """
[[upstream]]
name = "model"
kind = "scripted"
script = "{script}"
"""
HISTORY = [
    ["human", "What 🧺 do I have?"],
    ["ai", "I look.", [["call_1", "products", {"n": 1.5, "of": ["a"]}], ["call_2", "orders", {}]]],
    ["tool", '{"products": []}', "call_1", "products", "success"],
    ["tool", "no such shop", "call_2", "orders", "error"],
    ["ai", "Nothing."],
]
WANTED: dict[str, Any] = {
    "of turns": [
        ["human", "Do two sums"],
        ["ai", "Let me see.", [["calculate", {"expression": "6 * 7"}], ["calculate", {"expression": "6 *"}]]],
        ["tool", "calculate", "success", True],
        ["tool", "calculate", "error", True],
        ["ai", "It is 42, and the other is no sum."],
        ["human", "Once again"],
        ["ai", "As I said: 42."],
    ],
    "empty": [],
    "again": HISTORY,
    "image": ["human", ["text", "image_url"]],
    "invalid": ["ai", [["call_3", "orders", '{"n": ']], "tool", "call_3"],
    "run": [
        ["tool", "sunny in Rome", "call_4", "weather", "success"],
        ["tool", True, "call_5", "fails", "error"],
    ],
    "after run": ["human", "ai", "tool", "tool", "ai"],
    "twice": [400, "orphan_result", "rows[0].tool_call_id"],
    "early": [400, "call_without_result", "rows[0]"],
    "system": True,
    "many": [251, "m0", "m250"],
    "cleared": [[], ["human"]],
    "of others": [],
    "chain": ["human", "ai", "human", "ai"],
    "told": "As I said: 42.",
}


def said(server: Server) -> None:
    """Two turns of one conversation, the first with two calls of which one fails."""
    messages: list[dict[str, Any]] = []
    headers = {
        "authorization": f"Bearer {server.key}",
        "turnwright-conversation": "turns",
        "turnwright-user": "ann",
    }
    for text in ["Do two sums", "Once again"]:
        messages.append({"role": "user", "content": text})
        body = {"model": "m", "messages": messages}
        answer = httpx.post(f"{server.base_url}/chat/completions", json=body, headers=headers, timeout=30)
        answer.raise_for_status()
        messages.append(answer.json()["choices"][0]["message"])


def in_javascript(at: dict[str, str]) -> dict[str, Any]:
    """What the class in JavaScript read; it finds its packages beside itself."""
    with tempfile.TemporaryDirectory(prefix="turnwright-interop-") as folder:
        place = Path(folder)
        shutil.copy(CLIENTS / "javascript/turnwright-history.mjs", place)
        shutil.copy(HERE / "history.mjs", place)
        (place / "node_modules").symlink_to(Path(os.environ["INTEROP_NODE"]) / "node_modules")
        done = subprocess.run(
            ["node", str(place / "history.mjs"), json.dumps(at)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    if done.returncode != 0:
        return {"failed": done.stderr[-2000:]}
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def main() -> None:
    failed = 0
    with tempfile.TemporaryDirectory(prefix="turnwright-interop-") as folder:
        script = Path(folder) / "model.toml"
        script.write_text(SCRIPT)
        with Server(CONFIG.format(script=script), tools="calculate") as server:
            said(server)
            for language, read in [("Python", history.read), ("JavaScript", in_javascript)]:
                at = {"url": server.url, "key": server.key, "prefix": language}
                got = read(at)
                for what in sorted(WANTED.keys() | got.keys()):
                    if got.get(what) != WANTED.get(what):
                        failed += 1
                        print(f"FAILED {language}, {what}:\n  wanted {WANTED.get(what)}\n  got    {got.get(what)}")
    print(f"steps: {2 * len(WANTED)}; failed: {failed}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
