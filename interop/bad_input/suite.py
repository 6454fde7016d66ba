"""Sends each row of testdata/bad_input.toml by openai-python and openai-node, without retries.

Asserted of each: the class raised, and its `type`, `code`, `param` and request id.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import openai
import rows
from rows import Row
from server import Server, create_key, revoke_key
from upstream import KEY, Upstream

HERE = Path(__file__).parent
KEY_VARIABLE = "BAD_INPUT_UPSTREAM_KEY"
# Longer than the silence of any row.
CLIENT_TIMEOUT_S = 60
KEYS = {
    "plain": ("--scope", "chat"),
    "tools": ("--scope", "chat", "--tools", "all"),
    "unscoped": ("--scope", "turns:read"),
    "expired": ("--scope", "chat"),
}
FIELDS = ("type", "code", "param")

CONFIG = """
[limits]
model_backoff_ms = 0
plain_s = 10
retry_after_max_s = 0

[[upstream]]
name = "fake"
kind = "openai"
base_url = "{url}/v1"
api_key_env = "{variable}"
first_byte_s = 1
idle_s = 1
"""


def main() -> int:
    table = rows.read(sys.argv[1:])
    left_out = Counter(why for row in table if (why := rows.why_left_out(row)))
    sent = [row for row in table if not rows.why_left_out(row)]
    os.environ[KEY_VARIABLE] = KEY
    root = Path(tempfile.mkdtemp(prefix="turnwright-bad-input-"))
    upstream = Upstream(table)
    # Bound and not listening: connections to it are refused.
    closed = socket.socket()
    closed.bind(("127.0.0.1", 0))
    servers = {
        "listening": serve(root / "listening", upstream.url),
        "refused": serve(root / "refused", f"http://127.0.0.1:{closed.getsockname()[1]}"),
    }
    began = time.monotonic()
    wrong: list[str] = []
    try:
        keys = {name: keys_of(server) for name, server in servers.items()}
        requests = [request_of(row, servers, keys) for row in sent]
        for client, raised in (("python", by_python), ("node", by_node)):
            for row, got in zip(sent, raised(requests, upstream), strict=True):
                wrong += [f"{row['name']}, {client}: {what}" for what in check(row, client, got)]
        wrong += [f"the server {name} does not answer" for name in servers if not ready(servers[name])]
    finally:
        upstream.close()
        for server in servers.values():
            server.kill()
        shutil.rmtree(root, ignore_errors=True)
    for what in wrong:
        print(f"FAILED  {what}")
    for why, count in left_out.items():
        print(f"left out: {count}, {why}")
    took = time.monotonic() - began
    print(f"{len(sent)} rows by 2 clients, {len(wrong)} wrong, in {took:.0f} s")
    return 1 if wrong or not sent else 0


def serve(folder: Path, upstream_url: str) -> Server:
    config = CONFIG.format(url=upstream_url, variable=KEY_VARIABLE)
    return Server(folder, config).start()


def keys_of(server: Server) -> dict[str, str | None]:
    made = {kind: create_key(server.data, *options) for kind, options in KEYS.items()}
    revoke_key(server.data, made["expired"])
    return {**made, "missing": None, "wrong": "tw-0000000000000000"}


def ready(server: Server) -> bool:
    with urllib.request.urlopen(f"{server.url}/readyz", timeout=5) as answer:
        return answer.status == 200


def request_of(row: Row, servers: dict[str, Server], keys: dict[str, dict[str, str | None]]) -> Row:
    """What both clients are told to send."""
    refused = row.get("upstream", {}).get("head") == "refused"
    server = "refused" if refused else "listening"
    headers = dict(row.get("headers", {}))
    return {
        "row": row["name"],
        "base_url": f"{servers[server].url}/v1",
        "key": keys[server][row.get("key", "plain")],
        "method": row.get("method", "POST"),
        "path": row.get("path", "/v1/chat/completions").removeprefix("/v1"),
        "headers": headers,
        "before": rows.body_before(row),
        "body": rows.body(row),
    }


def by_python(requests: list[Row], upstream: Upstream) -> list[Row]:
    raised = []
    for request in requests:
        upstream.choose(request["row"])
        client = openai.OpenAI(
            base_url=request["base_url"],
            api_key=request["key"] or "none",
            max_retries=0,
            timeout=CLIENT_TIMEOUT_S,
        )
        headers: dict[str, Any] = own_headers(request, "python")
        if request["key"] is None:
            headers["Authorization"] = openai.Omit()
        if request["before"]:
            client.chat.completions.create(**request["before"], extra_headers=headers)
        raised.append(raised_by(client, request, headers))
    return raised


def own_headers(request: Row, client: str) -> dict[str, str]:
    """The row's headers; where a key is used twice, both times are of one client."""
    headers = dict(request["headers"])
    if request["before"]:
        headers["idempotency-key"] += f"-{client}"
    return headers


def raised_by(client: openai.OpenAI, request: Row, headers: dict[str, Any]) -> Row:
    stream_id = None
    try:
        answer = send(client, request, headers)
        if isinstance(answer, openai.Stream):
            stream_id = answer.response.headers.get("x-request-id")
            for _ in answer:
                pass
    except openai.APIError as error:
        body = error.body if isinstance(error.body, dict) else {}
        return {
            "class": type(error).__name__,
            "status": getattr(error, "status_code", None),
            "type": error.type,
            "code": error.code,
            "param": error.param,
            "request_id": getattr(error, "request_id", stream_id),
            "request_id_of_body": body.get("request_id"),
            "message": str(error),
        }
    return {"class": None}


def send(client: openai.OpenAI, request: Row, headers: dict[str, Any]) -> Any:
    """By the method for it; by the bare one where that would not send such a request."""
    body = request["body"]
    options = {"headers": headers}
    if request["method"] == "GET":
        return client.get(request["path"], cast_to=object, options=options)
    of_chat = request["path"] == "/chat/completions"
    named = {"model", "messages"} <= body.keys() and isinstance(body.get("stream", False), bool)
    if not (of_chat and named):
        return client.post(request["path"], body=body, cast_to=object, options=options)
    own = {name: body[name] for name in ("model", "messages", "stream") if name in body}
    rest = {name: value for name, value in body.items() if name not in own}
    return client.chat.completions.create(**own, extra_body=rest, extra_headers=headers)


def by_node(requests: list[Row], upstream: Upstream) -> list[Row]:
    told = [request | {"headers": own_headers(request, "node")} for request in requests]
    lines = "".join(json.dumps(request) + "\n" for request in told)
    ran = subprocess.run(
        ["node", str(HERE / "send.mjs"), upstream.url],
        input=lines,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in ran.stdout.splitlines()]


def check(row: Row, client: str, got: Row) -> list[str]:
    wanted = row["raises"][client] if "raises" in row else None
    if got["class"] != wanted:
        return [f"raised {got}, not {wanted}"]
    if wanted is None:
        return []
    wrong = [
        f"{name} is {got[name]!r}, not {row.get(name)!r}"
        for name in FIELDS
        if got[name] != row.get(name)
    ]
    in_stream = row.get("in_stream", False)
    if got["status"] != (None if in_stream else row["status"]):
        wrong.append(f"status is {got['status']}")
    if not (got["request_id"] or "").startswith("req_"):
        wrong.append(f"the request id is {got['request_id']!r}")
    if not in_stream and got["request_id_of_body"] != got["request_id"]:
        wrong.append(f"the request id in the body is {got['request_id_of_body']!r}")
    if row.get("says", "") not in got["message"] or KEY in got["message"]:
        wrong.append(f"it says {got['message']!r}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
