"""`Idempotency-Key`."""

from __future__ import annotations

from setting import Setting, calling, equal, later, soon
from surfaces import text_of

SLOW = '[[rule]]\ntext = "One two three four five six."\ndelay_ms = 300\ndelta_ms = 150\n'
TEXT = "One two three four five six."


def key(name: str, **more: str) -> dict[str, str]:
    return {"idempotency-key": name, **more}


def attaches(setting: Setting, *, stream: bool) -> None:
    body = setting.body(stream=stream)
    first = setting.open(body, key("k-1"))
    soon("the turn runs", setting.turns)
    if stream:
        # In the middle of the answer: what came before is replayed.
        equal(first.head().status, 200, "the first answer")
        soon("something is on disk", lambda: setting.server.rows("SELECT 1 FROM turn_event"))
    second = later(lambda: setting.post(body, key("k-1")))
    original, attached = first.rest(), second.result()
    equal(attached.turn, original.turn, "the turn")
    equal(attached.body, original.body, "the answer")
    equal(text_of(original.body), TEXT, "the text")
    replay = setting.post(body, key("k-1"))
    equal((replay.turn, replay.body), (original.turn, original.body), "the replay")
    equal(replay.headers["content-type"], original.headers["content-type"], "the replay's type")
    equal(len(setting.turns()), 1, "turns")


def test_stream(setting):
    """a running stream is attached to from its start, a finished one replayed, byte for byte"""
    attaches(setting(SLOW), stream=True)


def test_plain(setting):
    """a plain request waits for the running turn; a finished one is replayed, byte for byte"""
    attaches(setting(SLOW), stream=False)


def test_at_once(setting):
    """eight equal requests at once are one turn with one effect"""
    made = setting(calling("once"))
    body = made.body(stream=False)
    got = [one.result() for one in [later(lambda: made.post(body, key("k-1"))) for _ in range(8)]]
    equal({one.status for one in got}, {200}, "statuses")
    equal(len({one.turn for one in got}), 1, "turns answered")
    equal(len({one.body for one in got}), 1, "answers")
    equal(made.effects(), 1, "effects")
    equal(len(made.turns()), 1, "turns")


def test_what_counts(setting):
    """another body is refused; another key, key-less request or end user is another turn"""
    made = setting(calling("once"))
    body = made.body(stream=False)
    first = made.post(body, key("k-1"))
    refused = made.post(made.body(stream=False, text="Other."), key("k-1"))
    equal(refused.status, 422, "another body")
    if made.surface.has_codes:
        equal(refused.json()["error"]["code"], "idempotency_key_reused", "another body's code")
    equal(refused.headers.get("x-should-retry", "false"), "false", "another body's retries")
    others = {
        "another key": key("k-2"),
        "no key": {},
        "another end user": key("k-1", **{"turnwright-user": "bob"}),
    }
    for name, headers in others.items():
        got = made.post(body, headers)
        equal(got.status, 200, name)
        equal(got.turn == first.turn, False, f"{name}: the same turn")
    equal(made.effects(), 4, "effects")


def test_survives_restart(setting):
    """the key is known after a restart, and the answer the same"""
    made = setting(calling("once"))
    for stream in (True, False):
        body = made.body(stream=stream, text=f"Please {stream}.")
        first = made.post(body, key(f"k-{stream}"))
        made.server.kill()
        made.server.start()
        again = made.post(body, key(f"k-{stream}"))
        equal((again.turn, again.body), (first.turn, first.body), f"stream={stream}")
    equal(made.effects(), 2, "effects")
