"""A case: what the model asks a tool for, what the service must get, and what comes of it.

`cases/TOOL.json` holds it:

- `service`, `operation`: whose operation the tool was made from, as `METHOD PATH` of its description.
- `effect`, `arguments`, `metadata`: the tool's effect, what the model writes, what the client adds.
- `sent`: the path as it is on the wire, the query in any order, the headers that matter (the others
  are free), and the body as `json` or `form`.
- `answer`: the status, and the name of one of the description's examples or else a `body`.
- `shown` or `shown_text`: what the model is given of the answer, as JSON or as any other text.
- `refused_arguments`: what the function schema refuses, so that nothing is sent.
- `refused_requests`: the members of `sent` that are another's, and what the description `says`.
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from stand_in import FORM, JSON, Answer, Received, StandIn

FOLDER = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Case:
    tool: str
    service: str
    operation: str
    effect: str
    arguments: dict[str, Any]
    sent: dict[str, Any]
    answer: dict[str, Any]
    refused_arguments: list[dict[str, Any]]
    refused_requests: list[dict[str, Any]]
    shown: Any = None
    shown_text: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)

    @property
    def method(self) -> str:
        return self.operation.split(" ")[0]

    def answer_of(self, stand_in: StandIn) -> Answer:
        status = self.answer["status"]
        content_type = self.answer.get("content_type", JSON)
        if "example" in self.answer:
            example = self.answer["example"]
            body = stand_in.example(self.operation, status, content_type, example)
        elif "body" in self.answer:
            body = self.answer["body"]
        else:
            return Answer(status, content_type, b"")
        text = json.dumps(body) if content_type == JSON else body
        return Answer(status, content_type, text.encode())

    def check_sent(self, got: Received) -> None:
        sent = self.sent
        assert got.problem is None, f"the description refuses it: {got.problem}"
        assert got.method.upper() == self.method, f"the method is {got.method}"
        assert got.path == sent["path"], f"the path is {got.path}"
        query = [list(pair) for pair in sorted(got.query)]
        assert query == sent.get("query", []), f"the query is {query}"
        for name, value in sent["headers"].items():
            assert got.header(name) == value, f"{name} is {got.header(name)}"
        if "json" in sent:
            assert got.content_type == JSON, f"the body is {got.content_type}"
            assert _is_same(got.body, sent["json"]), f"the body is {got.body!r}"
        elif "form" in sent:
            assert got.content_type == FORM, f"the body is {got.content_type}"
            pairs = parse_qsl(got.body.decode(), keep_blank_values=True, strict_parsing=True)
            form = [list(pair) for pair in sorted(pairs)]
            assert form == sent["form"], f"the form is {form}"
        else:
            assert not got.body, f"there is a body: {got.body!r}"

    def check_shown(self, shown: str) -> None:
        same = shown == self.shown_text
        if self.shown_text is None:
            same = _is_same(shown, self.shown)
        assert same, f"the model is shown {shown!r}"


def _is_same(text: str | bytes, wanted: Any) -> bool:
    """Whether it is that JSON, in whatever order; written out, since 1 equals true in Python."""
    return json.dumps(json.loads(text), sort_keys=True) == json.dumps(wanted, sort_keys=True)


def load(words: list[str]) -> list[Case]:
    """All cases, or those whose names contain one of the words."""
    return [
        Case(tool=file.stem, **json.loads(file.read_text()))
        for file in sorted(FOLDER.glob("*.json"))
        if not words or any(word in file.stem for word in words)
    ]


def check_by_hand(case: Case, stand_in: StandIn) -> None:
    """That the stand-in takes the case's request, answers it, and refuses what it should."""
    answer = case.answer_of(stand_in)
    stand_in.answer_with(answer)
    status, body = _send(case, stand_in, case.sent)
    assert (status, body) == (answer.status_code, answer.data), f"by hand: {status} {body!r}"
    for change in case.refused_requests:
        status, body = _send(case, stand_in, {**case.sent, **change})
        assert status == 400, f"not refused, but {status}: {change}"
        assert change["says"] in json.loads(body)["refused"], f"{change} is refused for {body!r}"
    stand_in.take()


def _send(case: Case, stand_in: StandIn, sent: dict[str, Any]) -> tuple[int, bytes]:
    target = sent["path"]
    if sent.get("query"):
        target += f"?{_encoded(sent['query'])}"
    headers, body = dict(sent["headers"]), b""
    if "json" in sent:
        headers["content-type"], body = JSON, json.dumps(sent["json"]).encode()
    elif "form" in sent:
        headers["content-type"], body = FORM, _encoded(sent["form"]).encode()
    connection = http.client.HTTPConnection(stand_in.place)
    try:
        connection.request(case.method, target, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _encoded(pairs: list[list[str]]) -> str:
    return urlencode([(name, value) for name, value in pairs])
