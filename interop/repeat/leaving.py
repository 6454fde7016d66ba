"""Stop: closing the connection, cancelling, and leaving without stopping."""

from __future__ import annotations

import time

from setting import ANSWER, Setting, calling, equal, later, soon
from surfaces import text_of
from upstream import LAST_TEXT, WORD_EVERY_S, WORDS, Upstream


class Asked:
    """A streamed request whose model talks slowly and would then call a `once` tool."""

    def __init__(self, setting, **headers: str) -> None:
        self.upstream = Upstream()
        self.setting: Setting = setting(upstream=self.upstream.url)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self.open = self.setting.open(self.setting.body(stream=True), given)
        self.turn = self.open.turn()
        self.open.head().readline()

    def check_stopped(self, reason: str) -> None:
        equal(self.setting.final(self.turn), ("cancelled", reason), "the turn")
        soon("the upstream's connection is closed", self.upstream.was_left.is_set)
        # Longer than the model's whole first round would have taken.
        time.sleep(WORDS * WORD_EVERY_S + 0.5)
        equal(self.setting.effects(), 0, "effects")
        equal(self.upstream.requests, 1, "requests of the upstream")
        equal(self.setting.server.rows("SELECT count(*) FROM tool_call"), [(0,)], "calls")


def test_closing_before_the_call(setting):
    """closed in round 1: the call never runs, the upstream request ends, the turn is cancelled"""
    asked = Asked(setting)
    asked.open.leave()
    asked.check_stopped("client_left")


def test_python_closes_its_stream(setting):
    """the same with the official client's `close()`"""
    upstream = Upstream()
    made = setting(upstream=upstream.url)
    driven = made.client()
    stream = driven.client.chat.completions.create(
        model="any", messages=[{"role": "user", "content": "Please."}], stream=True
    )
    next(iter(stream))
    stream.close()
    equal(made.final(driven.turns[0]), ("cancelled", "client_left"), "the turn")
    soon("the upstream's connection is closed", upstream.was_left.is_set)
    equal(made.effects(), 0, "effects")


def test_closing_with_finish(setting):
    """`turnwright-on-leave: finish`: the turn goes on without its client"""
    asked = Asked(setting, turnwright_on_leave="finish")
    asked.open.leave()
    equal(asked.setting.final(asked.turn), ("completed", None), "the turn")
    equal(asked.setting.effects(), 1, "effects")
    equal(asked.upstream.requests, 2, "requests of the upstream")


def test_cancel(setting):
    """`POST /v1/turns/{id}/cancel` stops it, and the stream says so and has no other end"""
    asked = Asked(setting)
    status, record = asked.setting.server.call("POST", f"/v1/turns/{asked.turn}/cancel", asked.setting.key, {})
    equal(status, 200, "the cancel's status")
    equal((record["status"], record["reason"]), ("cancelled", "requested"), "the record")
    rest = asked.open.rest().body
    surface = asked.setting.surface
    if any(end in rest for end in surface.ends) or surface.cancelled not in rest:
        raise AssertionError(f"the stream ends {rest[-300:]!r}")
    asked.check_stopped("requested")


def test_one_of_two_leaves(setting):
    """a request that attached keeps the turn going when the first one leaves"""
    asked = Asked(setting, idempotency_key="k-1")
    body = asked.setting.body(stream=True)
    second = asked.setting.open(body, {"idempotency-key": "k-1"})
    equal(second.turn(), asked.turn, "the turn attached to")
    asked.open.leave()
    got = second.rest()
    if not text_of(got.body).endswith(LAST_TEXT):
        raise AssertionError(f"the second client's answer ends {got.body[-300:]!r}")
    equal(asked.setting.final(asked.turn), ("completed", None), "the turn")


def test_closing_during_a_once_call(setting):
    """a once call that runs may end and is recorded; no round follows"""
    made = setting(calling("once"), tool_takes_s=1.0)
    asked = made.open(made.body(stream=True))
    soon("the call runs", made.effects)
    ((turn, _, _),) = made.turns()
    asked.leave()
    equal(made.final(turn), ("cancelled", "client_left"), "the turn")
    equal(made.server.rows("SELECT status FROM tool_call"), [("completed",)], "the call")
    equal(made.effects(), 1, "effects")
    equal(made.server.rows("SELECT max(round) FROM attempt"), [(1,)], "rounds")


def test_closing_a_plain_request(setting):
    """a plain request is stopped by closing as well"""
    made = setting(f'[[rule]]\ntext = "{ANSWER}"\ndelay_ms = 20000\n')
    asked = made.open(made.body(stream=False))
    ((turn, _, _),) = soon("the turn runs", made.turns)
    asked.leave()
    equal(made.final(turn), ("cancelled", "client_left"), "the turn")


def test_plain_with_finish(setting):
    """a plain request that is left with `finish` completes, and its key replays the answer"""
    made = setting(calling("once"), tool_takes_s=1.0)
    body = made.body(stream=False)
    headers = {"turnwright-on-leave": "finish", "idempotency-key": "k-1"}
    asked = made.open(body, headers)
    soon("the call runs", made.effects)
    asked.leave()
    again = later(lambda: made.post(body, headers)).result()
    equal(text_of(again.body), ANSWER, "the answer")
    equal(made.effects(), 1, "effects")
    equal(len(made.turns()), 1, "turns")
