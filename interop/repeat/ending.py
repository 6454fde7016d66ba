"""The end of the server: SIGTERM, and a second server on the same folder."""

from __future__ import annotations

import subprocess

from setting import Setting, calling, equal, later, soon
from surfaces import text_of

TAKES_S = 1.0
ENDS_WITHIN_S = 10.0


def sigterm(setting: Setting, *, stream: bool) -> None:
    running = later(lambda: setting.post(setting.body(stream=stream)))
    soon("the call runs", setting.effects)
    setting.server.terminate()
    soon("it is no longer ready", lambda: setting.server.call("GET", "/readyz", setting.key)[0] == 503)
    refused = setting.post(setting.body(stream=stream, text="Another."))
    equal(refused.status, 503, "a new request")
    got = running.result()
    equal((got.status, text_of(got.body)), (200, "All is done."), "the running turn's answer")
    if stream and not got.body.endswith(b"data: [DONE]\n\n"):
        raise AssertionError(f"the stream ends {got.body[-100:]!r}")
    equal(setting.server.wait(ENDS_WITHIN_S), 0, "the exit code")
    equal([status for _, status, _ in setting.turns()], ["completed"], "turns")


def test_sigterm_stream(setting):
    """a running stream arrives whole, new requests get 503, the exit code is 0"""
    sigterm(setting(calling("once"), tool_takes_s=TAKES_S), stream=True)


def test_sigterm_plain(setting):
    """a running plain answer arrives whole, new requests get 503, the exit code is 0"""
    sigterm(setting(calling("once"), tool_takes_s=TAKES_S), stream=False)


def test_sigterm_idle(setting):
    """nothing runs: it ends soon, with an open idle connection too"""
    made = setting(calling("read"))
    driven = made.client()
    equal(driven.ask("Please.", stream=False).outcome, "answer", "an answer")
    made.server.terminate()
    equal(made.server.wait(ENDS_WITHIN_S), 0, "the exit code")
    driven.close()


def test_drain_limit_hands_over(setting):
    """a turn longer than the drain limit is finished by the next server, without a second effect"""
    made = setting(calling("idempotent"), tool_takes_s=4.0, config="[server]\ndrain_s = 1\n")
    running = later(lambda: made.post(made.body(stream=False)))
    soon("the call runs", made.effects)
    made.server.terminate()
    equal(made.server.wait(ENDS_WITHIN_S), 0, "the exit code")
    if running.exception() is None:
        equal(running.result().status, 503, "the answer of a turn that was handed over")
    ((turn, _, _),) = made.turns()
    made.server.start()
    equal(made.final(turn), ("completed", None), "the turn")
    keys = {effect.key for effect in made.ledger.effects(made.case)}
    equal(len(keys), 1, "keys of the idempotent call")


def test_second_serve_refuses(setting):
    """one server for each data folder"""
    made = setting(calling("read"))
    command = made.server.command()
    command[command.index("--listen") + 1] = "127.0.0.1:0"
    second = subprocess.run(command, capture_output=True, text=True, timeout=20)
    equal(second.returncode == 0, False, "the second one runs")
    if "another server runs on the folder" not in second.stderr:
        raise AssertionError(f"it says {second.stderr!r}")
    equal(made.server.call("GET", "/readyz", made.key)[0], 200, "the first one")
