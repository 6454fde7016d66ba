"""Answers that are lost on their way: the clients' own retries run no call again that was not `read`."""

from __future__ import annotations

import itertools

from drive import Driven
from failing import asked_by_node
from lossy import Lossy, closed_before, passes, reset_after_one_byte, takes_all
from setting import ANSWER, Setting, calling, equal

# How the first tries end, how many of them do, and how many tries that makes.
LOSSES = (
    ("reset after one byte", reset_after_one_byte, 1, 2),
    ("reset after one byte, twice", reset_after_one_byte, 2, 3),
    ("the proxy takes all", takes_all, 1, 2),
    ("the proxy takes all, twice", takes_all, 2, 3),
    ("closed before", closed_before, 1, 2),
    ("closed after", passes, 1, 1),
)


def python(setting: Setting, effect: str) -> None:
    for (loss, loses, times, tries), stream, named in itertools.product(LOSSES, (False, True), (False, True)):
        case = f"{effect}, {loss}, {'streamed' if stream else 'plain'}, {'named' if named else 'nobody'}"
        proxy = Lossy(setting.server.port, loses, times)
        before = setting.effects()
        driven = Driven(proxy.url, setting.key)
        ended = driven.ask(case, stream=stream, **({"user": "alice"} if named else {}))
        proxy.close()
        driven.close()
        equal((ended.outcome, ended.text), ("answer", ANSWER), f"{case}: the client's end ({ended.note})")
        equal(len(driven.sent), tries, f"{case}: requests")
        if effect != "read":
            equal(setting.effects() - before, 1, f"{case}: effects")


def test_once(setting):
    """once: each loss, plain and streamed, with and without a name: one effect, and the answer arrives"""
    python(setting(calling("once")), "once")


def test_idempotent(setting):
    """the same of an idempotent call"""
    python(setting(calling("idempotent")), "idempotent")


def test_queryable(setting):
    """the same of a queryable call"""
    python(setting(calling("queryable")), "queryable")


def test_read(setting):
    """a read call may run again; the answer arrives"""
    python(setting(calling("read")), "read")


def test_node(setting):
    """openai-node: each loss, plain and streamed: one effect, and the answer arrives"""
    made = setting(calling("once"))
    for (loss, loses, times, tries), stream in itertools.product(LOSSES, (False, True)):
        case = f"{loss}, {'streamed' if stream else 'plain'}"
        proxy = Lossy(made.server.port, loses, times)
        before = made.effects()
        ended = asked_by_node(proxy.url, made.key, stream=stream, text=case)
        proxy.close()
        equal((ended["status"], ended["requests"]), (200, tries), f"{case}: the client's end")
        equal(made.effects() - before, 1, f"{case}: effects")


# The turn takes some 0.3 s; patience that ends about then.
TOOL_TAKES_S = 0.3
PATIENCES_S = tuple(0.28 + 0.005 * step for step in range(16))


def test_timeout_about_as_long_as_the_turn(setting):
    """a time-out about as long as the turn: never two effects of one question, plain or streamed"""
    made = setting(calling("once"), tool_takes_s=TOOL_TAKES_S)
    for patience, stream in itertools.product(PATIENCES_S, (False, True)):
        case = f"{patience:.3f} s, {'streamed' if stream else 'plain'}"
        before = made.effects()
        driven = made.client(patience)
        ended = driven.ask(case, stream=stream)
        driven.close()
        if ended.outcome not in ("answer", "424", "timeout"):
            raise AssertionError(f"{case}: {ended}")
        equal(made.effects() - before <= 1, True, f"{case}: effects at most one")


def test_two_people_are_two(setting):
    """equal words, unmarked, are two turns; the retry of one of them runs nothing a third time"""
    made = setting(calling("once"))
    body = made.body(stream=False)
    first, second = made.post(body), made.post(body)
    equal(first.turn == second.turn, False, "one turn for two people")
    equal(made.effects(), 2, "effects of two people")
    again = made.post(body, {"x-stainless-retry-count": "1"})
    equal(again.turn in (first.turn, second.turn), True, "the retry is one of the two")
    equal(made.effects(), 2, "effects after the retry")
