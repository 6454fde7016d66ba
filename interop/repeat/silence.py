"""Keep-alive comments on a silent stream, and clients that read nothing."""

from __future__ import annotations

import json
import socket
import time

from server import HOST
from setting import equal, soon
from surfaces import text_of
from upstream import Upstream

SILENT = '[[rule]]\ntext = "At last."\ndelay_ms = 3500\n'
KEEP_ALIVE = "[server]\nkeep_alive_s = 1\n"
STALL = "[server]\nclient_stall_s = 1\n"
RECEIVE_BYTES = 4096


def test_keep_alive_comments(setting):
    """a stream that is silent for 3.5 s gets a comment each second, and the right answer"""
    made = setting(SILENT, config=KEEP_ALIVE)
    began = time.monotonic()
    asked = made.open(made.body(stream=True))
    equal(asked.head().status, 200, "the status")
    head_after_s = time.monotonic() - began
    if not 0.8 < head_after_s < 2.5:
        raise AssertionError(f"the head came after {head_after_s:.1f} s")
    got = asked.rest()
    comments = [line for line in got.body.split(b"\n") if line.startswith(b":")]
    if len(comments) not in (3, 4):
        raise AssertionError(f"{len(comments)} comments in {got.body!r}")
    equal(text_of(got.body), "At last.", "the text")


def test_python_reads_past_comments(setting):
    """the official client reads a stream with comments"""
    made = setting(SILENT, config=KEEP_ALIVE)
    driven = made.client(timeout_s=2.0)
    ended = driven.ask("Please.", stream=True)
    equal((ended.outcome, ended.text), ("answer", "At last."), "the client's end")
    equal(len(driven.sent), 1, "requests")


def test_no_comments_on_plain(setting):
    """a plain answer has no comments"""
    made = setting(SILENT, config=KEEP_ALIVE)
    got = made.post(made.body(stream=False))
    equal(text_of(got.body), "At last.", "the text")


def stalled(setting, **headers: str) -> tuple:
    """A client that sends a request and then reads nothing, while the model floods it."""
    upstream = Upstream(flood=True)
    made = setting(upstream=upstream.url, config=STALL)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    connection.connect((HOST, made.server.port))
    body = made.body(stream=True)
    head = [
        "POST /v1/chat/completions HTTP/1.1",
        "host: turnwright",
        f"authorization: Bearer {made.key}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    ((turn, _, _),) = soon("the turn runs", made.turns)
    return made, upstream, turn, connection


def test_stalled_client_is_gone(setting):
    """a client that takes nothing for longer than the limit counts as gone: the turn is stopped"""
    made, upstream, turn, connection = stalled(setting)
    equal(made.final(turn), ("cancelled", "client_left"), "the turn")
    soon("the upstream's connection is closed", upstream.was_left.is_set)
    equal(made.server.call("GET", "/readyz", made.key)[0], 200, "the server")
    connection.close()


def test_stalled_client_with_finish(setting):
    """with `finish` the turn completes without it"""
    made, upstream, turn, connection = stalled(setting, turnwright_on_leave="finish")
    equal(made.final(turn), ("completed", None), "the turn")
    soon("the upstream was read to its end", upstream.answered_whole.is_set)
    connection.close()


def test_slow_reader_gets_all(setting):
    """a client that reads slowly slows the upstream, and gets every byte"""
    made, _, turn, connection = stalled(setting)
    received = 0
    text_bytes = 0
    pause_until = time.monotonic() + 0.5
    connection.settimeout(20)
    tail = b""
    while b"data: [DONE]\n\n" not in tail:
        data = connection.recv(65536)
        if not data:
            break
        received += len(data)
        text_bytes += data.count(b"x")
        tail = (tail + data)[-64:]
        if time.monotonic() < pause_until:
            time.sleep(0.1)
    connection.close()
    if b"[DONE]" not in tail:
        raise AssertionError(f"the stream ends after {received} bytes: {tail!r}")
    equal(made.final(turn), ("completed", None), "the turn")
    ((blocks,),) = made.server.rows("SELECT blocks FROM message WHERE round = 1")
    stored = json.dumps(json.loads(blocks)).count("x")
    if text_bytes < stored:
        raise AssertionError(f"{text_bytes} of {stored} bytes of text came")


def test_stalled_starter_with_a_reader(setting):
    """the client that started the turn stalls; one that attached reads on and gets the whole answer"""
    made, _, turn, connection = stalled(setting, idempotency_key="k-1")
    got = made.post(made.body(stream=True), {"idempotency-key": "k-1"})
    equal(got.turn, turn, "the turn attached to")
    equal(got.body.endswith(b"data: [DONE]\n\n"), True, f"whole, of {len(got.body)} bytes ending {got.body[-200:]!r}")
    equal(made.final(turn), ("completed", None), "the turn")
    connection.close()
