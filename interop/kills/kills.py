"""Real kills: at every fail point, under the official client, with what must be left of it.

A case is a fail point, streamed or not, one call or two, and an effect class. The server is
armed, driven, kills itself, and is started again on the same folder and port while the client
retries by itself.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import left
from drive import Driven, Ended
from engines import Engine
from ledger import Case, Ledger
from server import POLL_S, Server

CLASSES = ("read", "idempotent", "queryable", "once")
KILLS_MIN = 200
CLIENT_ENDS_WITHIN_S = 40.0
"""After a client has its answer, so long until the point counts as not reached."""
LAST_POINT_WITHIN_S = 0.5

FIRST_TEXT = "Let me look that up for you."
LAST_TEXT = "It is done, and this is the answer to it."
FAIL_POINTS = Path(__file__).resolve().parents[2] / "crates/tw-runtime/src/fail_point.rs"


def fail_points() -> list[str]:
    """The names, from the one file that holds them, but for what only a turn that is taken over reaches."""
    names = re.findall(r'Self::\w+ => "(\w+)"', FAIL_POINTS.read_text())
    return [name for name in names if name != "claimed"]


@dataclass(frozen=True)
class Config:
    point: str
    stream: bool
    calls: int
    effect: str
    """Whether the model says something before its calls."""
    talks: bool

    @property
    def name(self) -> str:
        form = "stream" if self.stream else "plain"
        talks = "talking" if self.talks else "silent"
        return f"{self.point}-{form}-{self.calls}-{self.effect}-{talks}"


@dataclass
class Result:
    config: Config
    reached: bool
    ended: Ended
    statuses: Counter[str] = field(default_factory=Counter)
    effects: int = 0
    wrong: list[str] = field(default_factory=list)


def configs(points: Iterable[str], quick: bool) -> list[Config]:
    made: list[Config] = []
    for at, point in enumerate(points):
        every = [
            Config(point, stream, calls, effect, talks=(at + i) % 2 == 0)
            for (stream, calls), (i, effect) in itertools.product(
                itertools.product((True, False), (1, 2)), enumerate(CLASSES)
            )
        ]
        if quick:
            # One of the streams and one of the plain ones, another of each at every point.
            half = len(every) // 2
            every = [every[at % half], every[half + (at * 3 + 1) % half]]
        made.extend(every)
    return made


def script(config: Config) -> str:
    calls = ", ".join(
        f'{{ name = "{config.effect}_probe", arguments = {{ n = {n} }} }}' for n in range(1, config.calls + 1)
    )
    text = f'text = "{FIRST_TEXT}"' if config.talks else ""
    return f"""
[[rule]]
when = {{ last_role = "user" }}
{text}
calls = [{calls}]
delta_ms = 4

[[rule]]
when = {{ last_role = "tool", tool_results = {config.calls} }}
text = "{LAST_TEXT}"
delta_ms = 4
"""


def server_config(config: Config, folder: Path, ledger_url: str) -> str:
    return f"""
[record]
flush_interval_ms = 1

[[upstream]]
name = "scripted"
kind = "scripted"
script = "{folder / "script.toml"}"

[[probe]]
name = "{config.effect}_probe"
effect = "{config.effect}"
url = "{ledger_url}/{config.name}/{config.effect}_probe"
"""


class Matrix:
    def __init__(self, engine: Engine, ledger: Ledger) -> None:
        self.root = engine.root
        self.ledger = ledger
        self.template = engine.template(f"template-{type(self).__name__}", "--tools", "all")
        self.key = self.template.key

    def run(self, config: Config) -> Result:
        folder = self.root / config.name
        folder.mkdir()
        record = self.template.copy(folder)
        (folder / "script.toml").write_text(self.script(config))
        server = Server(folder, self.config_of(config, folder), record=record)
        case = self.ledger.open(config.name)
        try:
            result = self.drive(config, server, case)
        except Exception as error:  # noqa: BLE001 - the table must show whatever it was
            result = Result(config, False, Ended("harness"), wrong=[f"harness: {error!r}"])
        if result.wrong:
            server.kill()
            print(f"FAILED {config.name}, kept in {folder}", flush=True)
            for line in result.wrong:
                print(f"  {line}", flush=True)
        else:
            server.forget()
        return result

    def script(self, config: Config) -> str:
        return script(config)

    def config_of(self, config: Config, folder: Path) -> str:
        return server_config(config, folder, self.ledger.url)

    def drive(self, config: Config, server: Server, case: Case) -> Result:
        server.start(fail_point=config.point)
        driven = Driven(server.url, self.key, retries=server.record.retries)
        ended: list[Ended] = []
        client = threading.Thread(target=lambda: ended.append(driven.ask("Please.", stream=config.stream)))
        client.start()
        reached = self._dies(server, client)
        if reached:
            server.kill()
            server.start()
        ready_at = time.monotonic()
        wrong = self._finals(server, driven, ready_at)
        client.join(CLIENT_ENDS_WITHIN_S)
        if not ended:
            return Result(config, reached, Ended("hangs"), wrong=[*wrong, "the client never ended"])
        wrong += self._finals(server, driven, time.monotonic())
        driven.close()
        result = Result(config, reached, ended[0], wrong=wrong)
        self._check_left(server, case, result)
        self._check_answer(result)
        return result

    @staticmethod
    def _dies(server: Server, client: threading.Thread) -> bool:
        until = None
        while server.is_running():
            now = time.monotonic()
            if not client.is_alive():
                until = until or now + LAST_POINT_WITHIN_S
                if now > until:
                    return False
            time.sleep(POLL_S)
        return True

    def _finals(self, server: Server, driven: Driven, since: float) -> list[str]:
        return left.finals(server, self.key, lambda: list(driven.turns), since)

    def _check_left(self, server: Server, case: Case, result: Result) -> None:
        """Ends the server, since its file is looked at, too."""
        for status, reason in server.rows("SELECT status, reason FROM turn"):
            result.statuses[f"{status}({reason})" if reason else status] += 1
        made = self.ledger.effects(case)
        result.effects = len(made)
        result.wrong += left.open_rows(server)
        server.kill()
        result.wrong += server.record.wrong()
        result.wrong += left.effects(server, made)

    @staticmethod
    def _check_answer(result: Result) -> None:
        config, ended = result.config, result.ended
        if ended.outcome == "answer":
            whole = f"{FIRST_TEXT}\n\n{LAST_TEXT}" if config.talks else LAST_TEXT
            if ended.text != whole:
                result.wrong.append(f"the answer reads {ended.text!r}")
            if not any(status == "completed" for status in result.statuses):
                result.wrong.append("an answer came and no turn is completed")
        elif ended.outcome == "424" and config.effect == "read":
            result.wrong.append("424 although only read calls ran")
        elif ended.outcome not in ("424", "cut", "error event"):
            result.wrong.append(f"the client ended with {ended.outcome}: {ended.note}")
        if ended.outcome in ("cut", "error event") and not config.stream:
            result.wrong.append(f"a plain request ended with {ended.outcome}: {ended.note}")


def run(engine: Engine, *, quick: bool, only: str | None) -> tuple[int, int]:
    """Runs the matrix; how many checks passed and failed."""
    began = time.monotonic()
    points = [point for point in fail_points() if only in (None, point)]
    matrix = Matrix(engine, Ledger())
    with ThreadPoolExecutor(engine.workers) as workers:
        results = list(workers.map(matrix.run, configs(points, quick)))
    took_s = time.monotonic() - began
    print_table(points, results)
    kills = sum(result.reached for result in results)
    passed = sum(not result.wrong for result in results)
    failed = len(results) - passed
    print(f"kills: {kills} in {took_s:.0f} s")
    for point in points:
        if not any(result.reached for result in results if result.config.point == point):
            print(f"FAILED: {point} was never reached")
            failed += 1
    if only is None and not quick and kills < KILLS_MIN:
        print(f"FAILED: fewer than {KILLS_MIN} kills")
        failed += 1
    if took_s > engine.whole_s_max:
        print(f"FAILED: more than {engine.whole_s_max:.0f} s")
        failed += 1
    return passed, failed


def print_table(points: list[str], results: list[Result]) -> None:
    print(f"\n{'fail point':<18}{'killed':>8}  {'stream: client':<34}{'plain: client':<26}turns")
    for point in points:
        of_point = [result for result in results if result.config.point == point]
        killed = sum(result.reached for result in of_point)
        cells = [
            words(Counter(r.ended.outcome for r in of_point if r.config.stream == stream)) for stream in (True, False)
        ]
        turns = words(sum((r.statuses for r in of_point), Counter()))
        print(f"{point:<18}{killed:>4}/{len(of_point):<3}  {cells[0]:<34}{cells[1]:<26}{turns}")
        for form, stream in (("stream", True), ("plain", False)):
            of_form = [result for result in of_point if result.config.stream == stream]
            missed = [result.config.name for result in of_form if not result.reached]
            if missed and len(missed) == len(of_form):
                print(f"{'':<18}not reached: {form}, in any configuration")
            elif missed:
                print(f"{'':<18}not reached: {', '.join(missed)}")


def words(counts: Counter[str]) -> str:
    return ", ".join(f"{count}x {word}" for word, count in sorted(counts.items()))
