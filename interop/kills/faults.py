"""Loads with faults and kills: lost answers, logs that cannot be written, drivers that panic."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import broken_logs
import lost_answers
import panics
from engines import Engine
from kills import fail_points, words
from load import Ground, Load

PARTS = ("lost", "logs", "panics")
QUICK_EVERY = 5


def run(engine: Engine, parts: Iterable[str], *, quick: bool, only: str | None) -> tuple[int, int]:
    """Runs these parts; how many loads passed and failed."""
    began = time.monotonic()
    ground = Ground(engine)
    points = [point for point in fail_points() if only in (None, point)]
    made = {
        "lost": lost_answers.loads(ground) if "lost" in parts else [],
        "logs": broken_logs.loads(ground) if "logs" in parts else [],
        "panics": panics.loads(ground, points[::QUICK_EVERY] if quick else points) if "panics" in parts else [],
    }
    loads = [load for of_part in made.values() for load in of_part]
    with ThreadPoolExecutor(engine.workers) as workers:
        list(workers.map(Load.run_and_close, loads))
    print()
    for part, of_part in made.items():
        if of_part:
            print_part(part, of_part)
    print(f"loads with faults: {sum(load.kills for load in loads)} kills in {time.monotonic() - began:.0f} s")
    if made["panics"]:
        panicked = sum(load.panics for load in made["panics"])
        claims_killed = sum(load.claims_killed for load in made["panics"])
        print(f"panics: {panicked}, {claims_killed} kills as the next driver claimed")
    failed = sum(bool(load.wrong) for load in loads)
    return len(loads) - failed, failed


def print_part(part: str, loads: list[Load]) -> None:
    clients = words(Counter(ended.outcome for load in loads for ended in load.ended.values()))
    turns = words(sum((load.statuses for load in loads), Counter()))
    print(f"{part}: {len(loads)} loads; clients: {clients}; turns: {turns}")
