"""Runs the tests against a server whose model is the script beside this file."""

import json
import os
import sys
from pathlib import Path

import pytest
from server import Server

HERE = Path(__file__).parent
# The benchmark compares with recorded answers, and there are none of ours.
LEFT_OUT = ["test_stream_time"]


class Outcomes:
    """Counts; a test that was skipped without being listed is one that did not hold."""

    def __init__(self):
        self.passed, self.unexpected = 0, []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" and report.passed:
            self.passed += 1
        elif report.skipped and not any(name in report.nodeid for name in LEFT_OUT):
            self.unexpected.append(f"{report.nodeid}: skipped")


def main():
    script = json.dumps(str(HERE / "model.toml"))
    config = f'[[upstream]]\nname = "model"\nkind = "scripted"\nscript = {script}\n'
    outcomes = Outcomes()
    with Server(config) as server:
        os.environ["TURNWRIGHT_BASE_URL"] = server.base_url
        os.environ["TURNWRIGHT_KEY"] = server.key
        options = ["--quiet", "--no-header", "--tb=short", "-p", "no:cacheprovider"]
        # ChatOpenAI shares its connections between tests, which must then share a loop.
        options += ["--asyncio-mode=auto", "-o", "asyncio_default_test_loop_scope=session"]
        options += ["--disable-socket", "--allow-unix-socket"]
        options += ["--allow-hosts=127.0.0.1", f"--rootdir={HERE}", str(HERE)]
        status = pytest.main(options + sys.argv[1:], plugins=[outcomes])
    for line in outcomes.unexpected:
        print(f"FAILED {line}")
    print(f"passed: {outcomes.passed}; left out: {', '.join(LEFT_OUT)}")
    sys.exit(1 if status != 0 or outcomes.unexpected or not outcomes.passed else 0)


if __name__ == "__main__":
    main()
