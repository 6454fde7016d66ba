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
from surfaces import CHAT, SURFACES, Surface

MODULES = (failing, timing, marked, keyed, leaving, lost, ending, silence)
# Whose requests are written without a client library: they hold on each surface.
ON_EACH_SURFACE = (marked, keyed, leaving)
# Those of them that the official client of chat completions makes.
BY_CLIENT = (leaving.test_python_closes_its_stream,)
WORKERS = 4

Test = Callable[[Callable[..., Setting]], None]


def run(root: Path, name: str, test: Test, surface: Surface) -> str:
    """`ok`, `left out: …`, or what went wrong."""
    made: list[Setting] = []

    def setting(script: str = "", **options) -> Setting:
        made.append(Setting(root / f"{name}-{len(made)}", script, surface=surface, **options))
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
        (f"{module.__name__}_{name.removeprefix('test_')}_{surface.name}", test, surface)
        for module in MODULES
        for name, test in vars(module).items()
        if name.startswith("test_")
        for surface in (SURFACES if module in ON_EACH_SURFACE and test not in BY_CLIENT else (CHAT,))
    ]
    tests = [test for test in tests if not words or any(word in test[0] for word in words)]
    root = Path(tempfile.mkdtemp(prefix="turnwright-repeat-"))
    began = time.monotonic()
    with ThreadPoolExecutor(WORKERS) as workers:
        verdicts = list(workers.map(lambda named: run(root, *named), tests))
    passed = failed = 0
    for (name, test, _), verdict in zip(tests, verdicts, strict=True):
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
