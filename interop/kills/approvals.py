"""Kills around approvals: the model calls a tool that has to be approved, and the client of Responses approves it.

A case kills the server at a fail point of the turn that asks, or of the one that brings the answer. Both requests carry
an idempotency key, and are sent again with it until they are answered; at last the answer is given once more in another
request. However often the server died, the call has the effects that its class allows, and is answered once.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import openai
from drive import Ended
from engines import Engine
from kills import CLASSES, FIRST_TEXT, LAST_TEXT, Config, Matrix, Result, fail_points, print_table
from ledger import Case, Ledger
from server import POLL_S, Server

PHASES = ("asking", "answering")
KILLS_MIN = 80
ENDED_WITHIN_S = 20.0
HTTP_OK = 200
ID_CHARS = 37
OVER = ("completed", "incomplete", "failed", "cancelled")
SILENT = ("beside_accept", "accepted_beside")
"""Only a turn that says nothing before its calls writes them beside its acceptance."""
UNREACHED = {
    # It runs no call, and asks the model once.
    *(("asking", point) for point in ("before_call_start", "after_call_start", "dispatched", "tool_answered")),
    *(("asking", point) for point in ("before_call_end", "after_call_end", "next_round_asked")),
    # Its call runs before any round, once it is accepted.
    *(("answering", point) for point in ("before_calls", "after_calls", "next_round_asked")),
    *(("answering", point) for point in ("beside_accept", "accepted_beside")),
}


@dataclass(frozen=True)
class Approval(Config):
    phase: str

    @property
    def name(self) -> str:
        return f"approval-{self.phase}-{super().name}"


def configs(points: Iterable[str], quick: bool) -> list[Approval]:
    made: list[Approval] = []
    others = [effect for effect in CLASSES if effect != "once"]
    for at, point in enumerate(points):
        every = [
            Approval(point, stream, 1, effect, point not in SILENT, phase)
            for phase, stream, effect in itertools.product(PHASES, (True, False), ("once", others[at % len(others)]))
        ]
        if quick:
            every = [every[at % len(every)]]
        made.extend(every)
    return [config for config in made if (config.phase, config.point) not in UNREACHED]


def script(config: Approval) -> str:
    text = f'text = "{FIRST_TEXT}"' if config.talks else ""
    return f"""
[[rule]]
when = {{ last_role = "user" }}
{text}
calls = [{{ name = "{config.effect}_probe", arguments = {{ n = 1 }} }}]
delta_ms = 4

[[rule]]
when = {{ last_role = "tool" }}
text = "{LAST_TEXT}"
delta_ms = 4
"""


def server_config(config: Approval, folder: Path, ledger_url: str) -> str:
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
requires_approval = true
"""


class ApprovalMatrix(Matrix):
    def script(self, config: Approval) -> str:
        return script(config)

    def config_of(self, config: Approval, folder: Path) -> str:
        return server_config(config, folder, self.ledger.url)

    def drive(self, config: Approval, server: Server, case: Case) -> Result:
        result = Result(config, False, Ended("answer"))
        asked = self._request(server, result, "asking", {"input": "Please."})
        questions = [item for item in asked["output"] if item["type"] == "mcp_approval_request"] if asked else []
        if len(questions) != 1:
            result.wrong.append(f"{len(questions)} questions were asked")
        else:
            answer = {"type": "mcp_approval_response", "approval_request_id": questions[0]["id"], "approve": True}
            wanted = {"input": [answer], "previous_response_id": asked["id"]}
            told = self._request(server, result, "answering", wanted)
            self._check_told(result, questions[0], told)
            self._check_again(server, result, wanted)
        self._check_left(server, case, result)
        return result

    def _request(self, server: Server, result: Result, phase: str, wanted: dict) -> dict | None:
        """The response in the background, once it has ended; the request is sent until it is answered."""
        config = result.config
        armed = config.point if phase == config.phase else None
        server.kill()
        server.start(fail_point=armed)
        body = {"model": "any", "background": True, "stream": config.stream, **wanted}
        headers = {"authorization": f"Bearer {self.key}", "idempotency-key": phase}
        name: list[str] = []
        client = threading.Thread(target=lambda: name.extend(begin(server.url, headers, body)))
        client.start()
        if armed is not None:
            result.reached = self._dies(server, client)
            if result.reached:
                server.kill()
                server.start()
        client.join(ENDED_WITHIN_S)
        response = ended(server.url, self.key, name[0]) if name else None
        # What was told in part before the server died has failed, and did nothing that may not be done again.
        if response is None or (phase == "asking" and response["status"] == "failed"):
            name = begin(server.url, headers, body)
            response = ended(server.url, self.key, name[0]) if name else None
        return response

    @staticmethod
    def _check_told(result: Result, question: dict, told: dict | None) -> None:
        config = result.config
        # A model that was cut off while it was shown is not asked again by the same turn.
        may_fail = config.phase == "answering" and result.reached and config.stream
        if told is None:
            # A request whose turn failed after its call is not tried again, unless the call only read.
            if not (may_fail and config.effect != "read"):
                result.wrong.append("the answer was never told")
            return
        calls = [item for item in told["output"] if item["type"] == "mcp_call"]
        ids = [call["approval_request_id"] for call in calls]
        # Tried again after one that only read, it is told what that came to.
        if ids != [question["id"]] and not (may_fail and config.effect == "read" and ids == []):
            result.wrong.append(f"the calls of the answer are for {ids}")
        if told["status"] != "completed" and not (may_fail and told["status"] == "failed"):
            result.wrong.append(f"the response that answers is {told['status']}: {told['error']}")

    def _check_again(self, server: Server, result: Result, wanted: dict) -> None:
        """Another answer to the same question is refused, and the model is told the truth without one."""
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key=self.key, max_retries=0) as client:
            try:
                client.responses.create(model="any", instructions="Once more.", **wanted)
                result.wrong.append("a second answer was taken")
            except openai.APIStatusError as error:
                if error.code != "approval_request_answered":
                    result.wrong.append(f"a second answer was refused with {error.code}")
        rows = server.rows("SELECT approval, status FROM tool_call WHERE approval IS NOT NULL")
        if rows != [("approved", "completed")]:
            result.wrong.append(f"the question is {rows}")
        acted = server.rows("SELECT count(*) FROM tool_call WHERE approves IS NOT NULL")[0][0]
        if acted != 1:
            result.wrong.append(f"{acted} calls act on one answer")


def begin(url: str, headers: dict[str, str], body: dict) -> list[str]:
    """The id of the response; none if the server died before it was told."""
    told = ""
    try:
        with (
            httpx.Client(timeout=ENDED_WITHIN_S) as client,
            client.stream("POST", f"{url}/v1/responses", headers=headers, json=body) as got,
        ):
            if got.status_code != HTTP_OK:
                return []
            for more in got.iter_text():
                told += more
    except httpx.TransportError:
        pass
    at = told.find("resp_")
    return [told[at : at + ID_CHARS]] if at >= 0 and len(told) >= at + ID_CHARS else []


def ended(url: str, key: str, name: str) -> dict | None:
    until = time.monotonic() + ENDED_WITHIN_S
    with httpx.Client(headers={"authorization": f"Bearer {key}"}) as client:
        while time.monotonic() < until:
            response = client.get(f"{url}/v1/responses/{name}").json()
            if response.get("status") in OVER:
                return response
            time.sleep(POLL_S)
    return None


def run(engine: Engine, *, quick: bool, only: str | None) -> tuple[int, int]:
    """Runs the matrix; how many checks passed and failed."""
    began = time.monotonic()
    points = [point for point in fail_points() if only in (None, point)]
    matrix = ApprovalMatrix(engine, Ledger())
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
    print(f"kills around approvals: {kills} in {took_s:.0f} s")
    if only is None and not quick and kills < KILLS_MIN:
        print(f"FAILED: fewer than {KILLS_MIN} kills around approvals")
        failed += 1
    if took_s > engine.whole_s_max:
        print(f"FAILED: more than {engine.whole_s_max:.0f} s")
        failed += 1
    return passed, failed
