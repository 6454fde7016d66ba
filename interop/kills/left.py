"""What must be left of a server that was killed: its turns, its rows, its file, and the effects in the ledger.

Each check says what is wrong, a line for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ledger import Effect
from server import POLL_S, Server

FINAL_WITHIN_S = 5.0


def finals(
    server: Server,
    key: str,
    turns: Callable[[], Iterable[str]],
    since: float,
    within_s: float = FINAL_WITHIN_S,
) -> list[str]:
    """Every turn whose headers were received is final in time, and so is every other."""
    within_s += server.record.taken_over_within_s
    while True:
        late = time.monotonic() > since + within_s
        wrong = []
        for turn in turns():
            status, record = server.turn(key, turn)
            if status != 200:
                wrong.append(f"turn {turn}, whose headers were received: HTTP {status}")
            elif record["status"] == "running":
                wrong.append(f"turn {turn}, whose headers were received, still runs")
        running = server.rows("SELECT id FROM turn WHERE status = 'running'")
        wrong += [f"turn {turn} still runs" for (turn,) in running]
        if not wrong or late:
            return wrong
        time.sleep(POLL_S * 5)


def open_rows(server: Server) -> list[str]:
    """Nothing of a final turn is under way."""
    opens = server.rows(
        "SELECT tool_name, status FROM tool_call"
        " WHERE status IN ('pending', 'processing') AND approval IS DISTINCT FROM 'asked'"
    )
    wrong = [f"a call of {name} is {status} in a final turn" for name, status in opens]
    tries = server.rows("SELECT count(*) FROM attempt WHERE outcome IS NULL")[0][0]
    if tries:
        wrong.append(f"{tries} attempts are open in final turns")
    return wrong


def effects(server: Server, made: list[Effect]) -> list[str]:
    """Each call had as many effects as its class allows, and the record tells of each. Calls are told apart by `n`."""
    wrong = []
    for n in sorted({effect.n for effect in made}):
        of_call = [effect for effect in made if effect.n == n]
        keys = {effect.key for effect in of_call}
        effect_class = of_call[0].effect_class
        if effect_class in ("once", "queryable") and len(of_call) > 1:
            wrong.append(f"{len(of_call)} effects of call {n}, which is {effect_class}")
        if effect_class == "idempotent" and len(keys) > 1:
            wrong.append(f"{len(keys)} keys of call {n}, which is idempotent")
    calls = server.rows(
        "SELECT idempotency_key, status, started_us IS NOT NULL FROM tool_call"
        # A call that was asked about runs as another one.
        " WHERE runs = 'server' AND approval IS NULL"
    )
    started = {key for key, _, was_started in calls if was_started}
    for effect in made:
        if effect.key not in started:
            wrong.append(f"an effect of call {effect.n} has no call that was written as started")
    happened = {effect.key for effect in made}
    for key, status, _ in calls:
        if status == "completed" and key not in happened:
            wrong.append("a call is completed whose effect never happened")
    return wrong
