"""A client whose patience is shorter than a call, and its own retries."""

from __future__ import annotations

from setting import Setting, calling, equal

TOOL_TAKES_S = 3.0
PATIENCE_S = 1.0


def once(setting: Setting, *, stream: bool) -> None:
    driven = setting.client(PATIENCE_S)
    ended = driven.ask("Please.", stream=stream)
    equal(ended.outcome, "424", f"the client's end ({ended.note})")
    equal(driven.sent, ["0", "1", "2"], "requests")
    equal(setting.effects(), 1, "effects")
    ((_, status, reason),) = setting.turns()
    equal((status, reason), ("cancelled", "client_left"), "the turn")
    ((call,),) = setting.server.rows("SELECT status FROM tool_call")
    equal(call, "completed", "the call, which may end although its client left")


def test_once_plain(setting):
    """a once call of 3 s and a timeout of 1 s: one effect, and the last answer is the 424"""
    once(setting(calling("once"), tool_takes_s=TOOL_TAKES_S), stream=False)


def test_once_stream(setting):
    """the same, streamed"""
    once(setting(calling("once"), tool_takes_s=TOOL_TAKES_S), stream=True)


def test_read_runs_anew(setting):
    """a read call of 3 s is aborted and a new turn runs; the client ends with its timeout"""
    made = setting(calling("read"), tool_takes_s=TOOL_TAKES_S)
    driven = made.client(PATIENCE_S)
    ended = driven.ask("Please.", stream=False)
    equal(ended.outcome, "timeout", "the client's end")
    ids = [turn for turn, _, _ in made.turns()]
    if len(ids) < 2:
        raise AssertionError(f"{len(ids)} turns, wanted more than one")
    for turn in ids:
        equal(made.final(turn), ("cancelled", "client_left"), "a turn")
