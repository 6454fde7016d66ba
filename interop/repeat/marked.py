"""Requests that a client library marks as sent again, without an idempotency key."""

from __future__ import annotations

import sqlite3
import time

from setting import ANSWER, Setting, calling, equal, later, soon
from surfaces import text_of

SLOW = '[[rule]]\ntext = "One two three four."\ndelay_ms = 1500\n'
QUICK = '[[rule]]\ntext = "One two three four."\n'
TEXT = "One two three four."
AGAIN = {"x-stainless-retry-count": "1"}


def user(name: str, *, again: bool) -> dict[str, str]:
    return {"turnwright-user": name, **(AGAIN if again else {})}


def running(setting: Setting, *, stream: bool) -> None:
    body = setting.body(stream=stream)
    first = later(lambda: setting.post(body, user("alice", again=False)))
    soon("the first turn runs", setting.turns)
    others = {
        "same user, marked": later(lambda: setting.post(body, user("alice", again=True))),
        "other user, marked": later(lambda: setting.post(body, user("bob", again=True))),
        "nobody, marked": later(lambda: setting.post(body, AGAIN)),
        "same user, other conversation, marked": later(
            lambda: setting.post(body, {**user("alice", again=True), "turnwright-conversation": "c-1"})
        ),
    }
    original = first.result()
    equal(text_of(original.body), TEXT, "the first answer")
    for name, other in others.items():
        got = other.result()
        equal(got.status, 200, name)
        equal(got.turn == original.turn, name == "same user, marked", f"{name}: whether it is the same turn")
        if got.turn == original.turn:
            equal(got.body, original.body, f"{name}: the answer")


def test_running_stream(setting):
    """while a stream runs, only the same user's marked retry attaches"""
    running(setting(SLOW), stream=True)


def test_running_plain(setting):
    """while a plain turn runs, only the same user's marked retry attaches"""
    running(setting(SLOW), stream=False)


def test_unmarked_is_new(setting):
    """an equal request without the mark is another turn"""
    made = setting(SLOW)
    body = made.body(stream=False)
    first = later(lambda: made.post(body, user("alice", again=False)))
    soon("the first turn runs", made.turns)
    second = made.post(body, {**user("alice", again=False), "x-stainless-retry-count": "0"})
    if first.result().turn == second.turn:
        raise AssertionError("an unmarked request attached")


def finished(setting: Setting, *, stream: bool) -> None:
    body = setting.body(stream=stream)
    first = setting.post(body, user("alice", again=False))
    again = setting.post(body, user("alice", again=True))
    equal((again.turn, again.body), (first.turn, first.body), "the same user's marked retry")
    other = setting.post(body, user("bob", again=True))
    equal(other.turn == first.turn, False, "another user's retry is the same turn")
    changed = setting.post(setting.body(stream=stream, text="Other."), user("alice", again=True))
    equal(changed.turn == first.turn, False, "another body is the same turn")


def test_finished_stream(setting):
    """after the end, a named user's marked retry is a replay, byte for byte"""
    finished(setting(QUICK), stream=True)


def test_finished_plain(setting):
    """after the end, a named user's marked retry is a replay, byte for byte"""
    finished(setting(QUICK), stream=False)


def test_body_user_counts_as_name(setting):
    """the body's `user` names the end user as the header does"""
    made = setting(QUICK)
    body = made.body(stream=False, user="alice")
    first = made.post(body)
    equal(made.post(body, AGAIN).turn, first.turn, "the marked retry")
    other = made.post(body, user("bob", again=True))
    equal(other.turn == first.turn, False, "the header names another: the same turn")


def test_nobody_and_answered_is_new(setting):
    """without a named user, a request whose answer was written to its end is not repeated"""
    made = setting(QUICK)
    body = made.body(stream=False)
    first = made.post(body)
    soon("the answer is noted", lambda: made.server.rows("SELECT 1 FROM turn WHERE answered_us IS NOT NULL"))
    again = made.post(body, AGAIN)
    equal(again.turn == first.turn, False, "the same turn")


# So long the database takes no write: enough for a request to reach the place where it waits for one.
LOCKED_S = 0.4


def test_marked_while_the_first_is_accepted(setting):
    """a retry that comes while its first try is still being written finds that one"""
    made = setting(calling("once"))
    body = made.body(stream=False)
    lock = sqlite3.connect(made.server.data / "turnwright.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    first = made.open(body, {"turnwright-on-leave": "finish"})
    time.sleep(LOCKED_S)
    first.leave()
    again = later(lambda: made.post(body, {**AGAIN, "turnwright-on-leave": "finish"}))
    time.sleep(LOCKED_S)
    lock.execute("ROLLBACK")
    lock.close()
    equal(text_of(again.result().body), ANSWER, "the answer to the retry")
    equal((len(made.turns()), made.effects()), (1, 1), "turns and effects")
