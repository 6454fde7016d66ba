"""Drivers that panic under load, with kills between: their turns go on with another driver of the same process.

Every life of a load panics where the first driver reaches a fail point. The first life is killed
where the next driver claims the turn, if there is one to claim, the second one while turns run, and
the last one not at all: what its drivers leave has nobody else to end it.
"""

from __future__ import annotations

from collections.abc import Callable

from load import Ground, Life, Load, mixed_questions
from server import Server

QUESTIONS = 12
KILL_EVERY = 3
# The turn may not be accepted yet, or has ended.
NOTHING_TO_CLAIM = ("before_accept", "asked", "answer_began", "before_calls", "after_turn_end", "finish_shown")
PANICKED = "turnwright_turn_drivers_panicked_total"


class Panicking(Load):
    def __init__(self, ground: Ground, point: str, first: int) -> None:
        """The class and the form of question `first` come first."""
        super().__init__(ground, f"panic-{point}-{first}", mixed_questions(QUESTIONS, first))
        self.point = point
        self.variables = {"TURNWRIGHT_PANIC_POINT": point}
        self.panics = 0
        self.claims_killed = 0

    def run(self) -> None:
        if self.point in NOTHING_TO_CLAIM:
            first: Panics = Panics(self, self.has_ended(KILL_EVERY))
        else:
            first = KilledAtClaim(self)
        self.go_through([first, Panics(self, self.has_ended(KILL_EVERY)), Panics(self)], self.ask)
        self.expect_of_kills()
        if self.panics == 0:
            self.wrong.append("no driver panicked")


class Panics(Life):
    """A life that panics."""

    def __init__(self, load: Panicking, *is_over: Callable[[], bool]) -> None:
        super().__init__(*is_over)
        self.load = load

    def start(self, server: Server) -> None:
        server.start(variables=self.load.variables)

    def look(self, server: Server, key: str) -> list[str]:
        self.load.panics += server.metric(key, PANICKED)
        return []


class KilledAtClaim(Panics):
    """Dies between the driver that panicked and the next one."""

    def start(self, server: Server) -> None:
        server.start(variables=self.load.variables, fail_point="claimed")

    def died(self, server: Server) -> list[str]:
        self.load.panics += 1
        self.load.claims_killed += 1
        return []


def loads(ground: Ground, points: list[str]) -> list[Panicking]:
    # A stream is first and a plain request is, and another class at each point.
    return [Panicking(ground, point, 2 * at + first) for at, point in enumerate(points) for first in (0, 1)]
