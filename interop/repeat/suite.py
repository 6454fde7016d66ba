"""Runs the tests of this folder: every function named `test_…`, a few at a time."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ending
import failing
import keyed
import leaving
import lost
import marked
import silence
import timing
from setting import Setting, Unavailable

MODULES = (failing, timing, marked, keyed, leaving, lost, ending, silence)
WORKERS = 4

Test = Callable[[Callable[..., Setting]], None]


def run(root: Path, name: str, test: Test) -> str:
    """`ok`, `left out: …`, or what went wrong."""
    made: list[Setting] = []

    def setting(script: str = "", **options) -> Setting:
        made.append(Setting(root / f"{name}-{len(made)}", script, **options))
        return made[-1]

    try:
        test(setting)
        verdict = "ok"
    except Unavailable as error:
        verdict = f"left out: {error}"
    except Exception as error:  # noqa: BLE001 - whatever it was, the others still run
        where = traceback.extract_tb(error.__traceback__)[-1]
        verdict = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {error}"
        for kept in made:
            verdict += f"\n    kept in {kept.server.folder}"
    for used in made:
        used.close(keep=not verdict.startswith(("ok", "left out")))
    return verdict


def main() -> int:
    words = sys.argv[1:]
    tests = [
        (f"{module.__name__}_{name.removeprefix('test_')}", test)
        for module in MODULES
        for name, test in vars(module).items()
        if name.startswith("test_")
    ]
    tests = [(name, test) for name, test in tests if not words or any(word in name for word in words)]
    root = Path(tempfile.mkdtemp(prefix="turnwright-repeat-"))
    began = time.monotonic()
    with ThreadPoolExecutor(WORKERS) as workers:
        verdicts = list(workers.map(lambda named: run(root, *named), tests))
    passed = failed = 0
    for (name, test), verdict in zip(tests, verdicts, strict=True):
        if verdict == "ok":
            passed += 1
            print(f"ok      {name}")
        elif verdict.startswith("left out"):
            print(f"        {name}: {verdict}")
        else:
            failed += 1
            print(f"FAILED  {name} ({(test.__doc__ or '').strip()})\n    {verdict}")
    if failed == 0:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{passed} passed, {failed} failed in {time.monotonic() - began:.0f} s")
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
