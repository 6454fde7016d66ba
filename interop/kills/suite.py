"""The suite of kills: three matrices of fail points, loads with faults, one for memory, and a trace of system calls."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import approvals
import faults
import kills
import memory
import mixed
import sync


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="about a tenth of the kills")
    options.add_argument("--only", choices=("kills", "mixed", "approvals", *faults.PARTS, "fsync", "memory"))
    options.add_argument("--point", help="only this fail point")
    chosen = options.parse_args()
    root = Path(tempfile.mkdtemp(prefix="turnwright-kills-"))
    passed = failed = 0
    for name, suite in (
        ("fsync", lambda: sync.run(root)),
        ("memory", lambda: memory.run(root)),
        ("kills", lambda: kills.run(root, quick=chosen.quick, only=chosen.point)),
        ("mixed", lambda: mixed.run(root, quick=chosen.quick, only=chosen.point)),
        ("approvals", lambda: approvals.run(root, quick=chosen.quick, only=chosen.point)),
    ):
        if chosen.only in (None, name):
            more_passed, more_failed = suite()
            passed += more_passed
            failed += more_failed
    parts = [part for part in faults.PARTS if chosen.only in (None, part)]
    if parts:
        more_passed, more_failed = faults.run(root, parts, quick=chosen.quick, only=chosen.point)
        passed += more_passed
        failed += more_failed
    if failed == 0:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
