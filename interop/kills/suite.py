"""The suite of kills: three matrices of fail points, loads with faults, one for memory, and a trace of system calls.

It runs over SQLite whole, and a share of it over PostgreSQL; `--engine` runs all of it over one of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import approvals
import broken_databases
import engines
import faults
import kills
import memory
import mixed
import sync

PARTS = ("fsync", "memory", "kills", "mixed", "approvals", *faults.PARTS, *broken_databases.PARTS)
# Over PostgreSQL one matrix stands for what both engines do alike; the other parts are what only it can meet.
SHARE = ("kills", *broken_databases.PARTS)
# How files reach the disk, and what a start needs with them.
OF_FILES = ("fsync", "memory")
Outcome = tuple[int, int]


def suites(engine: engines.Engine, root: Path, parts: list[str], chosen: argparse.Namespace) -> Iterator[Outcome]:
    options = {"quick": chosen.quick, "only": chosen.point}
    matrices: dict[str, Callable[[], Outcome]] = {
        "fsync": lambda: sync.run(root),
        "memory": lambda: memory.run(root),
        "kills": lambda: kills.run(engine, **options),
        "mixed": lambda: mixed.run(engine, **options),
        "approvals": lambda: approvals.run(engine, **options),
    }
    for part, run in matrices.items():
        if part in parts:
            yield run()
    loads = [part for part in faults.PARTS if part in parts]
    if loads:
        yield faults.run(engine, loads, **options)
    broken = [part for part in broken_databases.PARTS if part in parts]
    if broken:
        yield broken_databases.run(engine, broken, quick=chosen.quick)


def over(name: str, root: Path, parts: list[str], chosen: argparse.Namespace) -> Outcome:
    """Runs these parts over an engine; how many checks passed and failed."""
    why = engines.missing(name)
    if why is not None:
        print(f"{name}: left out, {why}")
        return 0, int(bool(os.environ.get("TURNWRIGHT_REQUIRE")))
    home = root / name
    home.mkdir()
    print(f"== over {name}: {', '.join(parts)}", flush=True)
    engine = engines.ENGINES[name](home)
    passed = failed = 0
    try:
        for more_passed, more_failed in suites(engine, home, parts, chosen):
            passed += more_passed
            failed += more_failed
    finally:
        engine.close()
    return passed, failed


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="about a tenth of the kills")
    options.add_argument("--only", choices=PARTS)
    options.add_argument("--point", help="only this fail point")
    options.add_argument("--engine", choices=tuple(engines.ENGINES), help="all parts over it, and nothing over another")
    chosen = options.parse_args()
    root = Path(tempfile.mkdtemp(prefix="turnwright-kills-"))
    passed = failed = 0
    for name in engines.ENGINES if chosen.engine is None else (chosen.engine,):
        of_engine = OF_FILES if name == engines.Sqlite.name else broken_databases.PARTS
        others = {*OF_FILES, *broken_databases.PARTS} - {*of_engine}
        is_share = chosen.engine is None and name != engines.Sqlite.name
        parts = [part for part in (SHARE if is_share else PARTS) if part not in others]
        parts = [part for part in parts if chosen.only in (None, part)]
        if not parts:
            continue
        wanted = argparse.Namespace(**{**vars(chosen), "quick": chosen.quick or is_share})
        more_passed, more_failed = over(name, root, parts, wanted)
        passed += more_passed
        failed += more_failed
    if failed == 0:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
