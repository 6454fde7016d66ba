"""An upstream that fails after a call has changed the world: no client runs the call again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from setting import Setting, Unavailable, equal

FAILS_AFTER_CALL = """
[[rule]]
when = { last_role = "user" }
TEXT
calls = [{ name = "CLASS_probe", arguments = { n = 1 } }]

[[rule]]
when = { last_role = "tool" }
status = 502
"""
CONFIG = "[limits]\nmodel_backoff_ms = 10\n"
NODE = Path(__file__).with_name("ask.mjs")


def script(effect: str, text: str = "") -> str:
    return FAILS_AFTER_CALL.replace("CLASS", effect).replace("TEXT", text)


def python(setting: Setting, *, stream: bool) -> None:
    driven = setting.client()
    ended = driven.ask("Please.", stream=stream)
    equal(ended.outcome, "424", "the client's end")
    equal(ended.headers.get("x-should-retry"), "false", "x-should-retry")
    equal(len(driven.sent), 1, "requests")
    whole(setting)


def asked_by_node(url: str, key: str, *, stream: bool, text: str = "Please.") -> dict:
    """How openai-node's one question ended."""
    modules = os.environ.get("INTEROP_NODE_MODULES")
    if not modules:
        if os.environ.get("TURNWRIGHT_REQUIRE") == "1":
            raise AssertionError("INTEROP_NODE_MODULES is not set")
        raise Unavailable("INTEROP_NODE_MODULES is not set")
    command = ["node", str(NODE), modules, f"{url}/v1", key, str(stream).lower(), text]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if ran.returncode != 0:
        raise AssertionError(ran.stderr[-1000:])
    return json.loads(ran.stdout)


def node(setting: Setting, *, stream: bool) -> None:
    ended = asked_by_node(setting.server.url, setting.key, stream=stream)
    equal(ended["status"], 424, "the client's end")
    equal(ended["shouldRetry"], "false", "x-should-retry")
    equal(ended["requests"], 1, "requests")
    whole(setting)


def whole(setting: Setting) -> None:
    equal(setting.effects(), 1, "effects")
    ((_, status, reason),) = setting.turns()
    equal((status, reason), ("failed", "upstream"), "the turn")


def test_python_plain(setting):
    """openai-python, not streamed"""
    python(setting(script("once"), config=CONFIG), stream=False)


def test_python_stream(setting):
    """openai-python, streamed"""
    python(setting(script("once"), config=CONFIG), stream=True)


def test_node_plain(setting):
    """openai-node, not streamed"""
    node(setting(script("once"), config=CONFIG), stream=False)


def test_node_stream(setting):
    """openai-node, streamed"""
    node(setting(script("once"), config=CONFIG), stream=True)


def test_after_text_it_is_an_error_event(setting):
    """text was shown before the call: the stream ends with an error event, no finish, no [DONE]"""
    made = setting(script("once", 'text = "Wait."'), config=CONFIG)
    got = made.post(made.body(stream=True))
    equal(got.status, 200, "status")
    if b"[DONE]" in got.body or b'"finish_reason":"' in got.body:
        raise AssertionError(f"the stream ends as if whole: {got.body[-300:]!r}")
    last = json.loads(got.body.decode().strip().split("\n")[-1].removeprefix("data: "))
    if not last["error"]["message"]:
        raise AssertionError(f"no message: {last}")
    driven = made.client()
    equal(driven.ask("Another.", stream=True).outcome, "error event", "the client's end")
    equal(len(driven.sent), 1, "requests")
    equal(made.effects(), 2, "effects of two requests")


def test_the_client_leaves_it_at_that(setting):
    """the server has tried as often as another try can help, so the client is told to leave it at that"""
    made = setting(script("read"), config=CONFIG)
    driven = made.client()
    equal(driven.ask("Please.", stream=False).outcome, "502", "the client's end")
    equal(driven.sent, ["0"], "requests")
    equal(len(made.turns()), 1, "turns")
