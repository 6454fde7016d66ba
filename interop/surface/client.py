"""Does one thing with an official client, and tells what came of it.

A result has `class` (the class raised, or none), `said`, `headers`, `statuses` (of each answer,
those that the client's own retries got included) and `took_s`; of an error also `status`, `type`,
`code` and `request_id`.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import openai

HERE = Path(__file__).parent
CLIENTS = ("python", "node")
Result = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    what: str
    base_url: str
    key: str
    """`None` for the client's own default."""
    retries: int | None
    conversation: str = ""


def do(client: str, wanted: Wanted, answered: Callable[[int], None]) -> Result:
    """`answered` is called with each status as it comes."""
    if client == "python":
        return _python(wanted, answered)
    ran = subprocess.Popen(
        ["node", str(HERE / "client.mjs"), json.dumps(asdict(wanted))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert ran.stdout is not None and ran.stderr is not None
    told = []
    for line in ran.stderr:
        if line.strip().isdigit():
            answered(int(line))
        else:
            told.append(line)
    out = ran.stdout.read()
    if ran.wait() != 0:
        raise RuntimeError("".join(told))
    return json.loads(out)


def _python(wanted: Wanted, answered: Callable[[int], None]) -> Result:
    statuses: list[int] = []

    def came(response: Any) -> None:
        statuses.append(response.status_code)
        answered(response.status_code)

    http = openai.DefaultHttpxClient(event_hooks={"response": [came]})
    options = {} if wanted.retries is None else {"max_retries": wanted.retries}
    client = openai.OpenAI(base_url=wanted.base_url, api_key=wanted.key, http_client=http, **options)
    began = time.monotonic()
    got: Result
    try:
        got = {"class": None, **_said(client, wanted.what, wanted.conversation)}
    except openai.APIStatusError as error:
        got = {
            "class": type(error).__name__,
            "status": error.status_code,
            "type": error.type,
            "code": error.code,
            "request_id": error.request_id,
            "headers": dict(error.response.headers),
        }
    took_s = time.monotonic() - began
    client.close()
    return {**got, "statuses": statuses, "took_s": took_s}


def _said(client: openai.OpenAI, what: str, conversation: str) -> Result:
    if what == "ask":
        raw = client.chat.completions.with_raw_response.create(
            model="any", messages=[{"role": "user", "content": "Please."}]
        )
        return {"said": raw.parse().choices[0].message.content, "headers": dict(raw.headers)}
    if what == "retrieve":
        return {"said": client.conversations.retrieve(conversation).to_dict()}
    return {"said": client.conversations.delete(conversation).to_dict()}
