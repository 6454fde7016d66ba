"""Tools made from real services' own descriptions, called by a model through the real server."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import case as cases
import services
from case import Case
from clients import NodeClient, PythonClient
from server import BINARY, Server, create_key
from stand_in import StandIn

TOOLS = Path(__file__).parent / "tools"
SAYS = "The service says: "
SHOWN_AS = "{{last_result}}"
FAILURE_CHARS_SHOWN = 1500

# A case's name stands in the user's message, with the number of the refused arguments or `good`.
CALL = """
[[rule]]
when = {{ last_role = "user", last_contains = "<{marker}>" }}
calls = [{{ name = "{tool}", arguments = {arguments} }}]
"""
REST = f"""
[[rule]]
when = {{ last_role = "tool" }}
text = "{SAYS}{SHOWN_AS}"
"""


def main() -> int:
    table = cases.load(sys.argv[1:])
    listed = services.load()
    folder = services.install(listed)
    stand_ins = {
        service.name: StandIn(service.origin, services.description(service, folder))
        for service in listed
    }
    root = Path(tempfile.mkdtemp(prefix="turnwright-openapi-"))
    failures: list[str] = []
    counts: Counter[str] = Counter()
    server = None
    try:
        for case in table:
            problem = tried(cases.check_by_hand, case, stand_ins[case.service])
            failures += [f"{case.tool}, by hand: {problem}"] if problem else []
            counts["refused by the descriptions"] += len(case.refused_requests)
        server = Server(root, config(root, table, listed, stand_ins))
        applied = apply(server, root, listed, stand_ins)
        key = create_key(server.data, "--tools", "all")
        server.start()
        failures += turns(server, key, table, stand_ins, listed, counts)
        failures += [] if server.is_running() else ["the server ended"]
    finally:
        if server is not None:
            server.kill()
            if failures:
                print(server.log.read_text(errors="replace")[-FAILURE_CHARS_SHOWN:])
        for stand_in in stand_ins.values():
            stand_in.close()
        shutil.rmtree(root, ignore_errors=True)
    print(f"{applied} files of tools of {len(listed)} services, {len(table)} operations")
    for what, count in counts.items():
        print(f"{what}: {count}")
    for failure in failures:
        print(f"FAILED {failure[:FAILURE_CHARS_SHOWN]}")
    return 1 if failures or not table else 0


def config(
    root: Path,
    table: list[Case],
    listed: list[services.Service],
    stand_ins: dict[str, StandIn],
) -> str:
    """The server's configuration; the script of its model is written beside it."""
    script = root / "script.toml"
    script.write_text("".join(rules(table)) + REST)
    lines = ["[[upstream]]", 'name = "model"', 'kind = "scripted"', f'script = "{script}"']
    for service in listed:
        place = stand_ins[service.name].place
        lines += ["[[egress.allow]]", f'place = "{place}"', 'organizations = ["default"]']
        for name, value in service.secrets.items():
            lines += [f"[secrets.{name}]", f'value = "{value}"', f'hosts = ["{place}"]']
    return "\n".join(lines) + "\n"


def rules(table: list[Case]) -> list[str]:
    return [
        CALL.format(marker=marker(case, n), tool=case.tool, arguments=text_in_toml(arguments))
        for case in table
        for n, arguments in [("good", case.arguments), *enumerate(case.refused_arguments)]
    ]


def marker(case: Case, which: object) -> str:
    return f"{case.tool} {which}"


def text_in_toml(arguments: dict[str, Any]) -> str:
    """The arguments as the model writes them, in a TOML string, which has JSON's escapes."""
    return json.dumps(json.dumps(arguments, ensure_ascii=False), ensure_ascii=False)


def apply(
    server: Server, root: Path, listed: list[services.Service], stand_ins: dict[str, StandIn]
) -> int:
    """Applies the tools' files with each service's stand-in for its server; how many there are."""
    files = sorted(TOOLS.iterdir())
    for file in files:
        text = file.read_text()
        for service in listed:
            text = text.replace(service.origin, stand_ins[service.name].url)
        moved = root / file.name
        moved.write_text(text)
        command = [BINARY, "tools", "apply", str(moved), "--data", str(server.data)]
        command += ["--config", str(root / "turnwright.toml")]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{file.name} is not applied: {done.stdout}{done.stderr}")
    return len(files)


def turns(
    server: Server,
    key: str,
    table: list[Case],
    stand_ins: dict[str, StandIn],
    listed: list[services.Service],
    counts: Counter[str],
) -> list[str]:
    """Runs every case by every client, streamed and not; what was wrong."""
    failures = []
    secrets = [value for service in listed for value in service.secrets.values()]
    reached = SimpleNamespace(base_url=f"{server.url}/v1", key=key)
    clients = [PythonClient(reached), NodeClient(reached)]
    seen = Seen(server, key, stand_ins, secrets)
    for client, streamed, case in product(clients, (False, True), table):
        problem = tried(seen.check_good, client, streamed, case)
        if problem:
            failures.append(f"{case.tool}, {client.name}, streamed {streamed}: {problem}")
        counts[f"turns of {client.name}"] += 1
    for case in table:
        for n, arguments in enumerate(case.refused_arguments):
            problem = tried(seen.check_refused, clients[0], case, n)
            failures += [f"{case.tool}, refused {arguments}: {problem}"] if problem else []
            counts["refused by the function schemas"] += 1
    for client in clients:
        client.close()
    return failures


class Seen:
    """One turn at a time, looked at from the client, the record and the service."""

    def __init__(
        self, server: Server, key: str, stand_ins: dict[str, StandIn], secrets: list[str]
    ) -> None:
        self._server, self._key = server, key
        self._stand_ins, self._secrets = stand_ins, secrets
        self._idempotency_keys: set[str] = set()

    def check_good(self, client: PythonClient | NodeClient, streamed: bool, case: Case) -> None:
        stand_in = self._stand_ins[case.service]
        answer = case.answer_of(stand_in)
        stand_in.answer_with(answer)
        text, call = self._turn(client, streamed, case, "good")
        received = self._received()
        assert len(received) == 1, f"{len(received)} requests; {call}"
        case.check_sent(received[0])
        self._check_idempotency_key(case, received[0].header("idempotency-key"))
        assert (call["status"], call["reason"]) == ("completed", None), f"the call is {call}"
        assert call["effect"] == case.effect, f"the effect is {call['effect']}"
        case.check_shown(call["shown"])
        assert call["result"] == answer.data.decode(), f"the result is {call['result']!r}"
        assert text == SAYS + call["shown"], f"the client got {text!r}"

    def check_refused(self, client: PythonClient | NodeClient, case: Case, which: int) -> None:
        text, call = self._turn(client, False, case, which)
        assert not self._received(), "something was sent"
        assert call["status"] == "failed", f"the call is {call}"
        assert call["reason"] == "invalid_arguments", f"the call is {call}"
        assert not call["attempts"], f"there was an attempt: {call}"
        assert text == SAYS + call["shown"], f"the client got {text!r}"

    def _turn(
        self, client: PythonClient | NodeClient, streamed: bool, case: Case, which: object
    ) -> tuple[str, dict[str, Any]]:
        """The text that the client got, and the one call of the record."""
        content = f"Please. <{marker(case, which)}>"
        request: dict[str, Any] = {
            "model": "any",
            "messages": [{"role": "user", "content": content}],
        }
        if case.metadata:
            request["metadata"] = case.metadata
        outcome = client.read(request, streamed)
        assert outcome["error"] is None, f"{outcome['error']}"
        (choice,) = outcome["choices"]
        status, record = self._server.turn(self._key, f"{outcome['id']}?full=1")
        assert status == 200, f"the record: {status}"
        whole = json.dumps([record, choice])
        assert not any(secret in whole for secret in self._secrets), "a secret is in the record"
        assert record["status"] == "completed", f"the turn is {record['status']}"
        calls = [call for it in record["rounds"] for call in it["calls"]]
        assert [call["name"] for call in calls] == [case.tool], f"the calls are {calls}"
        return choice["text"], calls[0]

    def _received(self) -> list[Any]:
        """Wherever it was received, as a request to a wrong service must show, too."""
        return [it for stand_in in self._stand_ins.values() for it in stand_in.take()]

    def _check_idempotency_key(self, case: Case, key: str | None) -> None:
        if case.effect == "read":
            assert key is None, f"a read has the idempotency key {key}"
        else:
            assert key, "there is no idempotency key"
            assert key not in self._idempotency_keys, f"the idempotency key {key} comes again"
            self._idempotency_keys.add(key)


def tried(check: Any, *of: Any) -> str | None:
    """What went wrong, if something did."""
    try:
        check(*of)
    except (AssertionError, LookupError, OSError, ValueError) as problem:
        return repr(problem)
    return None


if __name__ == "__main__":
    sys.exit(main())
