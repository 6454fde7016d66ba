"""Answers that are lost on their way while the server is killed, with nobody named.

What the official clients then send again, marked by themselves (`x-stainless-retry-count`), runs no
`once` call a second time. The losses are those of `interop/repeat`; here the repetition comes to
another process than the first try.
"""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from drive import Driven, Ended
from failing import asked_by_node
from ledger import Effect
from load import CLIENTS_END_WITHIN_S, RETRIES, Ground, Life, Load, Question
from lossy import Loses, Lossy, comes_too_late, reset_after_one_byte, takes_all
from server import Server

LOSSES = (reset_after_one_byte, takes_all)
NODE = "openai-node"
PYTHON = "openai-python"


@dataclass(frozen=True)
class Losing(Question):
    """How the first `times` tries of the question end, and where the kill meets the first one."""

    client: str = PYTHON
    loses: Loses = takes_all
    times: int = 1
    """The call is under way when the server is killed; else the answer has left the server by then."""
    is_held: bool = False

    @property
    def form(self) -> str:
        where = "killed during the call" if self.is_held else "killed before the loss"
        return f"{super().form}, {self.client}, {self.loses.__name__}, {self.times} times, {where}"


def losing_questions(*, stream: bool) -> list[Losing]:
    cases = [
        *itertools.product((PYTHON,), LOSSES, (1, 2), (False, True)),
        *itertools.product((NODE,), LOSSES, (1,), (False, True)),
    ]
    return [
        Losing(n, "once", stream, False, client, loses, times, is_held)
        for n, (client, loses, times, is_held) in enumerate(cases, 1)
    ]


class Lost(Load):
    """One kill, when every first try is where it is to meet it: behind its answer, or in its call."""

    def __init__(self, ground: Ground, *, stream: bool) -> None:
        super().__init__(ground, f"lost-{'stream' if stream else 'plain'}", losing_questions(stream=stream))
        self.case.watch = self._hold
        self.held = {question.n for question in self.questions if question.is_held}
        self.started_again = threading.Event()
        self.was_killed = threading.Event()

    def run(self) -> None:
        lives = [Life(self._all_are_there), Again(self.was_killed, self.started_again)]
        self.go_through(lives, self._ask_through_proxy, at_once=len(self.questions))
        made = Counter(effect.n for effect in self.ground.ledger.effects(self.case))
        for question in self.questions:
            self.expect(question, {"answer"})
            if made[question.n] != 1:
                self.wrong.append(f"{question.form}: {made[question.n]} effects")
        turns = sum(self.statuses.values())
        if turns != len(self.questions):
            self.wrong.append(f"{turns} turns of {len(self.questions)} questions")
        self.expect_turns({"completed"})
        if self.kills != 1:
            self.wrong.append("the server was not killed")

    def _hold(self, effect: Effect) -> None:
        if effect.n in self.held:
            self.was_killed.wait(CLIENTS_END_WITHIN_S)

    def _all_are_there(self) -> bool:
        """Every call has run, and every answer that is not held counts as handed over, also after a crash."""
        sql = "SELECT count(*) FROM turn WHERE answered_us IS NOT NULL"
        answered = len(self.questions) - len(self.held)
        return self.effects() >= len(self.questions) and self.server.rows(sql) == [(answered,)]

    def _after_the_kill(self, loses: Loses) -> Loses:
        """The proxy takes the answer, the server is killed and starts again, and then the answer is lost."""

        def lose(client: socket.socket, request: bytes, answer: Callable[[], bytes]) -> None:
            whole = answer()
            self.started_again.wait(CLIENTS_END_WITHIN_S)
            loses(client, request, lambda: whole)

        return lose

    def _ask_through_proxy(self, question: Losing) -> Ended:
        proxy = Lossy(self.server.port, self._after_the_kill(question.loses), question.times)
        try:
            if question.client == NODE:
                got = asked_by_node(proxy.url, self.ground.key, stream=question.stream, text=question.text)
                outcome = "answer" if got["status"] == 200 else str(got["status"])
                ended, tries = Ended(outcome, got["text"]), got["requests"]
            else:
                driven = Driven(proxy.url, self.ground.key)
                ended = driven.ask(question.text, stream=question.stream)
                tries = len(driven.sent)
                self.seen(driven.turns)
                driven.close()
        finally:
            proxy.close()
        if tries != question.times + 1:
            self.wrong.append(f"{question.form}: {tries} tries")
        return ended


class Again(Life):
    """The life after the kill."""

    def __init__(self, was_killed: threading.Event, started_again: threading.Event) -> None:
        super().__init__()
        self.was_killed = was_killed
        self.started_again = started_again

    def start(self, server: Server) -> None:
        self.was_killed.set()
        super().start(server)
        self.started_again.set()


TOOL_TAKES_S = 0.3
TOO_SHORT_S = 0.9 * TOOL_TAKES_S
PATIENCES = 6
KILL_EVERY = 6
IMPATIENT_AT_ONCE = 6


@dataclass(frozen=True)
class Hurried(Question):
    """From 0, too short, to 1, longer than the turn."""

    patience: float = 0.0
    """The time-out ends while the answer is on its way; else whenever it does."""
    is_late: bool = False


class Impatient(Load):
    """Time-outs about as long as the turn, whose clients leave; what they send again waits as long as it takes."""

    def __init__(self, ground: Ground) -> None:
        forms = itertools.product(range(PATIENCES), (False, True), (False, True))
        questions = [
            Hurried(n, "once", stream, False, step / (PATIENCES - 1), is_late)
            for n, (step, is_late, stream) in enumerate(forms, 1)
        ]
        self.alone = [Question(len(questions) + n, "once", stream=False) for n in (1, 2)]
        super().__init__(ground, "lost-impatient", [*questions, *self.alone], TOOL_TAKES_S)
        self.questions = questions
        self.turn_s = 0.0

    def run(self) -> None:
        self.turn_s = self._turn_s()
        lives = [Life(self.has_ended(KILL_EVERY)), Life(self.has_ended(KILL_EVERY)), Life()]
        self.go_through(lives, self._ask_impatiently, at_once=IMPATIENT_AT_ONCE)
        for question in self.questions:
            allowed = {"answer", "424"}
            if question.stream and self.ended[question].headers:
                # Once something was shown, the client repeats nothing by itself.
                allowed |= {"cut", "error event", "timeout"}
            self.expect(question, allowed)
        self.expect_turns({"completed", "cancelled(client_left)", "incomplete(interrupted)"})

    def _turn_s(self) -> float:
        """What a turn takes that is alone, here and now. It only says how patient the clients are."""
        self.server.start()
        try:
            for question in self.alone:
                # The second time, since the client takes longer for its first request.
                began = time.monotonic()
                ended = self.ask(question)
                if ended.outcome != "answer":
                    self.wrong.append(f"{question.form}, alone: the client ended with {ended.outcome}: {ended.note}")
            return time.monotonic() - began
        finally:
            self.server.kill()

    def _ask_impatiently(self, question: Hurried) -> Ended:
        longest_s = max(1.2 * self.turn_s, TOOL_TAKES_S)
        patience_s = TOO_SHORT_S + (longest_s - TOO_SHORT_S) * question.patience
        proxy = Lossy(self.server.port, comes_too_late, 1)
        url = proxy.url if question.is_late else self.server.url
        driven = Driven(url, self.ground.key, retries=RETRIES, first_timeout_s=patience_s)
        # What waits for a server to start may be overtaken by its own repetition.
        self.serving.wait(CLIENTS_END_WITHIN_S)
        ended = driven.ask(question.text, stream=question.stream)
        self.seen(driven.turns)
        driven.close()
        proxy.close()
        if (question.is_late or patience_s < TOOL_TAKES_S) and len(driven.sent) < 2:
            self.wrong.append(f"{question.form}: an answer within {patience_s:.3f} s, which is too early")
        return ended


def loads(ground: Ground) -> list[Load]:
    return [Lost(ground, stream=False), Lost(ground, stream=True), Impatient(ground)]
