"""A database that breaks under load, while the server lives: its connections are killed, or PostgreSQL is stopped.

It breaks each time so many clients have ended. What was acknowledged is in the record then, and everything else that
holds after a kill of the server: clients are answered, calls run as often as their class allows, nothing stays open.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from engines import DatabaseRecord, Engine, Postgres
from faults import print_part
from load import Ground, Life, Load, mixed_questions
from server import POLL_S

PARTS = ("connections", "stops")
AT_ONCE = 8
CONNECTIONS_MIN = 200
STOPS = 20
QUICK_CONNECTIONS_MIN = 20
QUICK_STOPS = 2
CONNECTIONS_EVERY = 6
STOPS_EVERY = 10
# A fault kills one that renews the lease, two that write, and those that read.
CONNECTIONS_PER_FAULT = 3
# Nothing takes so long.
FAULT_ENDS_WITHIN_S = 30.0


class Broken(Load):
    """`faults` times, each behind `every` answers more."""

    # One each second, for as long as PostgreSQL may take to start.
    retries = 60

    def __init__(self, ground: Ground, name: str, faults: int, every: int) -> None:
        super().__init__(ground, name, mixed_questions(faults * every + AT_ONCE))
        assert isinstance(self.server.record, DatabaseRecord)
        self.record = self.server.record
        self.faults = faults
        self.every = every
        self.broken = 0
        self._is_over = threading.Event()

    def fault(self) -> int:
        """How much it has broken."""
        raise NotImplementedError

    def run(self) -> None:
        breaking = threading.Thread(target=self._break)
        breaking.start()
        try:
            self.go_through([Life()], self.ask, at_once=AT_ONCE, ends_within_s=self.faults * FAULT_ENDS_WITHIN_S)
        finally:
            self._is_over.set()
            breaking.join()
        self.expect_of_kills()

    def _break(self) -> None:
        for n in range(1, self.faults + 1):
            while self.ended_so_far() < n * self.every:
                if self._is_over.is_set():
                    return
                time.sleep(POLL_S)
            try:
                self.broken += self.fault()
            except Exception as error:  # noqa: BLE001 - the load still ends
                self.wrong.append(f"harness: fault {n}: {error!r}")
                return

    def expect_broken(self, at_least: int, what: str) -> None:
        if self.broken < at_least:
            self.wrong.append(f"{self.broken} {what}, of {at_least}")


class Connections(Broken):
    def __init__(self, ground: Ground, at_least: int) -> None:
        super().__init__(ground, "connections", -(-at_least // CONNECTIONS_PER_FAULT), CONNECTIONS_EVERY)
        self.at_least = at_least

    def fault(self) -> int:
        return self.record.cluster.kill_connections(self.record.database)

    def run(self) -> None:
        super().run()
        self.expect_broken(self.at_least, "connections were killed")


class Stops(Broken):
    def __init__(self, ground: Ground, stops: int) -> None:
        super().__init__(ground, "stops", stops, STOPS_EVERY)

    def fault(self) -> int:
        self.record.cluster.stop_at_once()
        self.record.cluster.start()
        return 1

    def run(self) -> None:
        super().run()
        self.expect_broken(self.faults, "immediate stops")


def run(engine: Engine, parts: Iterable[str], *, quick: bool) -> tuple[int, int]:
    """Runs these parts, one after another since a stop is everybody's; how many loads passed and failed."""
    if not isinstance(engine, Postgres):
        return 0, 0
    ground = Ground(engine)
    failed = passed = 0
    for part in parts:
        began = time.monotonic()
        if part == "connections":
            load: Broken = Connections(ground, QUICK_CONNECTIONS_MIN if quick else CONNECTIONS_MIN)
        else:
            load = Stops(ground, QUICK_STOPS if quick else STOPS)
        load.run_and_close()
        print_part(part, [load])
        print(f"{part}: {load.broken} in {time.monotonic() - began:.0f} s, {len(load.questions)} questions")
        failed += bool(load.wrong)
        passed += not load.wrong
    return passed, failed
