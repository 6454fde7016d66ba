"""Kills in mixed rounds: the model calls a tool of the server's and one of the client's at once.

The server's runs, and its result is held; the client gets its own call, and its next request
brings the result, which the server joins to the held one. A case kills the server at a fail point
of the turn that hands over, or of the one that joins. Both requests carry an idempotency key and
are sent again with it once they have ended: a client that lost its answer finds it that way.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from drive import TURN_HEADER, Driven, Ended
from engines import Engine
from kills import (
    CLASSES,
    CLIENT_ENDS_WITHIN_S,
    FIRST_TEXT,
    LAST_TEXT,
    Config,
    Matrix,
    Result,
    fail_points,
    print_table,
    server_config,
)
from ledger import Case, Ledger
from server import Server

PHASES = ("handing", "joining")
KILLS_MIN = 120
QUESTION = {"role": "user", "content": "Please."}
PICKED = "blue"
CLIENT_TOOL = "pick"
CLIENT_ARGUMENTS = '{"shade":3}'
UNREACHED = {("handing", "next_round_asked"), ("joining", "beside_accept"), ("joining", "accepted_beside")}
"""A turn that hands over asks the model once here; one that joins says something before its first write."""


@dataclass(frozen=True)
class Mixed(Config):
    phase: str

    @property
    def name(self) -> str:
        return f"mixed-{self.phase}-{super().name}"


def configs(points: Iterable[str], quick: bool) -> list[Mixed]:
    made: list[Mixed] = []
    others = [effect for effect in CLASSES if effect != "once"]
    for at, point in enumerate(points):
        every = [
            Mixed(point, stream, 1, effect, (at + i) % 2 == 0, phase)
            for i, (phase, stream, effect) in enumerate(
                # What must not be repeated is killed everywhere, the other classes by turns.
                itertools.product(PHASES, (True, False), ("once", others[at % len(others)]))
            )
        ]
        if quick:
            every = [every[at % len(every)]]
        made.extend(every)
    return [config for config in made if (config.phase, config.point) not in UNREACHED]


def script(config: Mixed) -> str:
    """The joining turn makes a call of its own, so that it passes every fail point, too."""
    probe = f"{config.effect}_probe"
    text = f'text = "{FIRST_TEXT}"' if config.talks else ""
    return f"""
[[rule]]
when = {{ last_role = "user" }}
{text}
calls = [
    {{ name = "{probe}", arguments = {{ n = 1 }} }},
    {{ name = "{CLIENT_TOOL}", arguments = '{CLIENT_ARGUMENTS}' }},
]
delta_ms = 4

[[rule]]
when = {{ last_role = "tool", tool_results = 2 }}
text = "{{{{result_1}}}} and {{{{result_2}}}}"
calls = [{{ name = "{probe}", arguments = {{ n = 2 }} }}]
delta_ms = 4

[[rule]]
when = {{ last_role = "tool", tool_results = 1 }}
text = "{LAST_TEXT}"
delta_ms = 4
"""


class MixedMatrix(Matrix):
    def script(self, config: Mixed) -> str:
        return script(config)

    def drive(self, config: Mixed, server: Server, case: Case) -> Result:
        result = Result(config, False, Ended("not driven"))
        handed = self._request(server, result, [QUESTION], "handing")
        turn = self._check_handed(server, result, handed)
        if turn is None:
            result.ended = handed[0]
        else:
            message = {
                "role": "assistant",
                "content": handed[-1].text or None,
                "tool_calls": [function_call(call) for call in handed[-1].calls],
            }
            answer = {"role": "tool", "tool_call_id": handed[-1].calls[0]["id"], "content": PICKED}
            joined = self._request(server, result, [QUESTION, message, answer], "joining")
            result.ended = joined[0] if config.phase == "joining" else handed[0]
            self._check_joined(server, result, turn, joined)
        self._check_left(server, case, result)
        return result

    def _request(self, server: Server, result: Result, messages: list[dict], phase: str) -> list[Ended]:
        """How the request ended, and how it ended when it was sent again with its key."""
        config = result.config
        armed = config.point if phase == config.phase else None
        server.kill()
        server.start(fail_point=armed)
        driven = Driven(server.url, self.key, retries=server.record.retries)
        wanted = {
            "stream": config.stream,
            "messages": messages,
            "tools": [tool(f"{config.effect}_probe"), tool(CLIENT_TOOL)],
            "extra_headers": {"idempotency-key": phase},
        }
        ended: list[Ended] = []
        client = threading.Thread(target=lambda: ended.append(driven.ask("", **wanted)))
        client.start()
        if armed is not None:
            result.reached = self._dies(server, client)
            if result.reached:
                server.kill()
                server.start()
            result.wrong += self._finals(server, driven, time.monotonic())
        client.join(CLIENT_ENDS_WITHIN_S)
        if not ended:
            result.wrong.append(f"{phase}: the client never ended")
            return [Ended("hangs")]
        ended.append(driven.ask("", **wanted))
        result.wrong += self._finals(server, driven, time.monotonic())
        driven.close()
        return ended

    def _check_handed(self, server: Server, result: Result, ended: list[Ended]) -> str | None:
        """The turn that handed over; `None` if none could, for a reason that is told."""
        config = result.config
        ids = {call["id"] for one in ended for call in one.calls}
        if len(ids) > 1:
            result.wrong.append(f"the client's call came under {len(ids)} ids")
        for one in ended:
            self._check_outcome(result, "handing", one)
            if one.outcome != "answer":
                continue
            made = [(call["name"], call["arguments"]) for call in one.calls]
            if made != [(CLIENT_TOOL, CLIENT_ARGUMENTS)] or one.finish != "tool_calls":
                result.wrong.append(f"the client was handed {made} with {one.finish}")
            if one.text != (FIRST_TEXT if config.talks else ""):
                result.wrong.append(f"the answer with the call reads {one.text!r}")
        last = ended[-1]
        if last.outcome != "answer" or len(last.calls) != 1:
            if ids:
                result.wrong.append(f"the call was handed over once, and then {last.outcome}")
            return None
        turn = last.headers[TURN_HEADER]
        sql = "SELECT c.status, c.id FROM tool_call c JOIN turn t ON t.key = c.turn WHERE t.id = ? AND c.runs = 'client'"
        rows = [(status, f"call_{id.replace('-', '')}") for status, id in server.rows(sql, turn)]
        if rows != [("completed", last.calls[0]["id"])]:
            result.wrong.append(f"the record's calls of the client are {rows}")
        return turn

    def _check_joined(self, server: Server, result: Result, parent: str, ended: list[Ended]) -> None:
        sql = (
            "SELECT c.status, c.reason, c.shown FROM tool_call c JOIN turn t ON t.key = c.turn"
            " WHERE t.id = ? AND c.runs = 'server'"
        )
        [(status, reason, shown)] = server.rows(sql, parent)
        if status != "completed" and reason not in ("outcome_unknown", "interrupted"):
            result.wrong.append(f"the held call is {status} ({reason})")
        whole = f"{shown} and {PICKED}\n\n{LAST_TEXT}"
        for one in ended:
            self._check_outcome(result, "joining", one)
            if one.outcome == "answer" and (one.text, one.finish, one.calls) != (whole, "stop", []):
                result.wrong.append(f"the joined answer reads {one.text!r}, not {whole!r}, and ends {one.finish}")
        sql = "SELECT count(*) FROM turn t JOIN turn p ON p.key = t.parent WHERE p.id = ?"
        of_parent = server.rows(sql, parent)[0][0]
        turns = server.rows("SELECT count(*) FROM turn")[0][0]
        others = server.rows("SELECT count(*) FROM turn WHERE parent IS NULL")[0][0]
        if of_parent == 0 or of_parent + others != turns:
            result.wrong.append(f"{of_parent} turns join the one that handed over, of {turns}")

    @staticmethod
    def _check_outcome(result: Result, phase: str, ended: Ended) -> None:
        config = result.config
        allowed = {"answer"}
        if phase == config.phase and result.reached:
            if config.effect != "read":
                allowed.add("424")
            if config.stream:
                allowed |= {"cut", "error event"}
        if ended.outcome not in allowed:
            result.wrong.append(f"{phase}: the client ended with {ended.outcome}: {ended.note}")


def tool(name: str) -> dict:
    return {"type": "function", "function": {"name": name}}


def function_call(call: dict[str, str]) -> dict:
    function = {"name": call["name"], "arguments": call["arguments"]}
    return {"id": call["id"], "type": "function", "function": function}


def run(engine: Engine, *, quick: bool, only: str | None) -> tuple[int, int]:
    """Runs the matrix; how many checks passed and failed."""
    began = time.monotonic()
    points = [point for point in fail_points() if only in (None, point)]
    matrix = MixedMatrix(engine, Ledger())
    with ThreadPoolExecutor(engine.workers) as workers:
        results = list(workers.map(matrix.run, configs(points, quick)))
    took_s = time.monotonic() - began
    passed = sum(not result.wrong for result in results)
    failed = len(results) - passed
    for phase in PHASES:
        of_phase = [result for result in results if result.config.phase == phase]
        print(f"\nkilled while {phase}")
        print_table([point for point in points if (phase, point) not in UNREACHED], of_phase)
        for point in points:
            of_point = [result for result in of_phase if result.config.point == point]
            if of_point and not quick and not any(result.reached for result in of_point):
                print(f"FAILED: {point} was never reached while {phase}")
                failed += 1
    kills = sum(result.reached for result in results)
    print(f"kills in mixed rounds: {kills} in {took_s:.0f} s")
    if only is None and not quick and kills < KILLS_MIN:
        print(f"FAILED: fewer than {KILLS_MIN} kills in mixed rounds")
        failed += 1
    if took_s > engine.whole_s_max:
        print(f"FAILED: more than {engine.whole_s_max:.0f} s")
        failed += 1
    return passed, failed
