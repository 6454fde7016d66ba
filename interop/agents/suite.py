"""Every case with every client."""

import itertools
import json
import os
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from cases import CASES, MESSAGES, OURS, Seen, found
from model import Model
from server import Server, config_with
from upstream import Listener

HERE = Path(__file__).parent
AT_ONCE = 6
WITHIN_S = 20
FAILURE_CHARS_SHOWN = 2000
# Parts of the names of clients that send a list of tools also where they have none.
ALWAYS_LIST = (
    "runTools",
    "tool runner",
    "toolRunner",
    "openai-agents",
    "@langchain/anthropic agent",
)


class Driver:
    """A process that asks by some clients, several at once."""

    _numbers = itertools.count(1)

    def __init__(self, command, server):
        self._lock = threading.Lock()
        self._outcomes = {}
        self._process = subprocess.Popen(
            [*command, server.base_url],
            env={
                **os.environ,
                "OPENAI_API_KEY": server.key,
                "ANTHROPIC_API_KEY": server.key,
                "AI_SDK_LOG_WARNINGS": "false",
                # The runner says of the server's tool that it has no function for it.
                "PYTHONWARNINGS": "ignore:Tool 'lookup' not found",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.clients = json.loads(self._process.stdout.readline())["clients"]
        threading.Thread(target=self._read, daemon=True).start()

    def start(self, job):
        """The job's number, and its outcome as a future."""
        number, outcome = next(self._numbers), Future()
        self._outcomes[number] = outcome
        self._send({"job": number, **job})
        return number, outcome

    def abort(self, number):
        self._send({"abort": number})

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise

    def _send(self, line):
        with self._lock:
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()

    def _read(self):
        for line in self._process.stdout:
            done = json.loads(line)
            self._outcomes[done["job"]].set_result(done["outcome"])


class Suite:
    def __init__(self, server, model, listener):
        self.server, self.model, self.listener = server, model, listener

    def run(self, driver, client, case):
        """What is wrong about this case with this client, or `None`."""
        name = f"{client}: {case.name}"
        outcome = {}
        try:
            outcome, extra = self._ask(driver, client, case, name)
            case.check(self._seen(client, case, name, outcome, extra))
        except Exception as problem:  # noqa: BLE001 (whatever it was, the others still run)
            return f"{name}: {type(problem).__name__} {problem}; {outcome}"
        return None

    def _ask(self, driver, client, case, name):
        # These always send a list, and an empty one would offer nothing.
        always = any(word in client for word in ALWAYS_LIST)
        tools = case.tools or ([OURS] if always else None)
        job = {"client": client, "model": name, "messages": MESSAGES, "tools": tools}
        job |= {"user": name if case.names_user else None, "leaves": case.leaves}
        number, outcome = driver.start(job)
        extra = {}
        if case.leaves:
            assert self.model.event(name, "waits").wait(WITHIN_S), "the model was not asked"
            driver.abort(number)
            extra["left"] = self.model.event(name, "left").wait(WITHIN_S)
        outcome = outcome.result(WITHIN_S)
        if messages := case.follow_up(outcome["answers"]):
            _, second = driver.start({**job, "messages": messages})
            second = second.result(WITHIN_S)
            outcome = {**second, "answers": outcome["answers"] + second["answers"]}
        return outcome, extra

    def _seen(self, client, case, name, outcome, extra):
        turns = self._rows("SELECT id, request_id FROM turn WHERE model = ? ORDER BY key", name)
        for turn, request_id in turns:
            extra["request_id"] = request_id
            self._wait_for_end(turn)
        return Seen(
            client,
            name,
            outcome,
            self.model.asked.get(name, []),
            self.listener.ran_for(name),
            [self.server.turn(turn) for turn, _ in turns],
            case.rounds(name),
            extra,
        )

    def _rows(self, sql, *values):
        database = sqlite3.connect(f"file:{self.server.database}?mode=ro", uri=True, timeout=10)
        try:
            return database.execute(sql, values).fetchall()
        finally:
            database.close()

    def _wait_for_end(self, turn):
        """A turn's events end with it."""
        asked = urllib.request.Request(
            f"{self.server.base_url}/turns/{turn}/events",
            headers={"authorization": f"Bearer {self.server.key}"},
        )
        with urllib.request.urlopen(asked, timeout=WITHIN_S) as events:
            events.read()


class Lookup(Listener):
    """The server's tool: says what it found, and keeps for which model's request it was."""

    def __init__(self):
        super().__init__(found)
        self._kept = []

    def ran_for(self, name):
        self._kept += [arguments for _, arguments in self.take()]
        return [it for it in self._kept if json.loads(it)["q"].rsplit(" ", 1)[0] == name]


def rounds_of(name):
    (case,) = [case for case in CASES if case.name == name.split(": ", 1)[1]]
    return case.rounds(name)


def main():
    words = sys.argv[1:]
    model, listener = Model(rounds_of), Lookup()
    config = config_with(model.base_url, [(OURS, f"{listener.base_url}/{OURS}")])
    with Server(config, tools="all") as server:
        drivers = [
            Driver([sys.executable, str(HERE / "drive.py")], server),
            Driver(["node", str(HERE / "drive.mjs")], server),
        ]
        suite = Suite(server, model, listener)
        pairs = [
            (driver, client, case)
            for driver in drivers
            for client in driver.clients
            for case in CASES
            if case.takes(client) and all(word in f"{client}: {case.name}" for word in words)
        ]
        with ThreadPoolExecutor(AT_ONCE) as workers:
            problems = list(workers.map(lambda pair: suite.run(*pair), pairs))
        for driver in drivers:
            driver.close()
    model.close()
    listener.close()
    show(drivers, pairs, problems)
    for problem in filter(None, problems):
        print(f"FAILED {problem[:FAILURE_CHARS_SHOWN]}")
    sys.exit(1 if any(problems) or not pairs else 0)


def show(drivers, pairs, problems):
    """A table of clients and cases."""
    marks = {
        (client, case.name): "FAILED" if problem else "ok"
        for (_, client, case), problem in zip(pairs, problems)
    }
    names = [case.name for case in CASES if any(case.name == name for _, name in marks)]
    wide = max(len(client) for driver in drivers for client in driver.clients) + 2
    print(f"{'':<{wide}}" + "  ".join(names))
    for client in itertools.chain.from_iterable(driver.clients for driver in drivers):
        row = [marks.get((client, name), "-").center(len(name)) for name in names]
        print(f"{client:<{wide}}" + "  ".join(row))


if __name__ == "__main__":
    main()
