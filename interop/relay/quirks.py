"""Streams with the oddities that upstreams were seen to have, as recordings of our own making.

Each is named by its number in the list of quirks, and the upstream's format.
"""

import json

from recordings import CHAT, MESSAGES, RESPONSES, Recording

ENDPOINTS = {
    CHAT: "/v1/chat/completions",
    RESPONSES: "/v1/responses",
    MESSAGES: "/v1/messages",
}
SMILE = "Oslo \U0001f600 \u00e9"


def load():
    """All of them."""
    return [_recording(*row) for row in [*_chat(), *_responses(), *_messages()]]


def _recording(name, kind, body, text, calls, finish, thought=0):
    expect = {
        "text": text,
        "calls": [{"name": called, "arguments": arguments} for called, arguments in calls],
        "finish": [finish],
        "reasoning_chars": thought,
    }
    return Recording(
        file=f"quirk {name}",
        kind=kind,
        endpoint=ENDPOINTS[kind],
        streamed=True,
        status=200,
        body=body if isinstance(body, bytes) else body.encode(),
        expect=expect,
        request={},
        fed_directly={},
    )


def _chunk(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "u", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return "data: " + json.dumps({**head, "choices": [choice]}) + "\n\n"


def _chunks(deltas, finish="tool_calls"):
    end = _chunk({}, finish) + "data: [DONE]\n\n"
    return _chunk({"role": "assistant", "content": ""}) + "".join(map(_chunk, deltas)) + end


def _piece(index=None, id=None, name=None, arguments=None, **more):
    function = {"name": name, "arguments": arguments}
    piece = {"index": index, "id": id, "function": _without_none(function), **more}
    return {"tool_calls": [_without_none(piece)]}


def _without_none(fields):
    return {key: value for key, value in fields.items() if value is not None}


def _chat():
    two = [("f", '{"x": 1}'), ("g", '{"y": 2}')]
    one = [("f", '{"x": 1}')]
    calls = [
        (
            "1: every call at index 0",
            [_piece(0, "a", "f", '{"x": '), _piece(0, None, None, "1}")]
            + [_piece(0, "b", "g", ""), _piece(0, None, None, '{"y": 2}')],
            two,
        ),
        (
            "2: whole calls at one index",
            [_piece(0, "a", "f", '{"x": 1}'), _piece(0, "b", "g", '{"y": 2}')],
            two,
        ),
        (
            "3: a second object and name begin a call",
            [_piece(0, "a", "f", '{"x": 1}'), _piece(0, None, "g", '{"y": 2}')],
            two,
        ),
        (
            "4: no index",
            [_piece(None, "a", "f", '{"x": 1}'), _piece(None, "b", "g", '{"y": 2}')],
            two,
        ),
        ("5: no id", [_piece(0, None, "f", '{"x": 1}'), _piece(1, None, "g", '{"y": 2}')], two),
        ("6: no type", [_piece(0, "a", "f", '{"x": 1}')], one),
        (
            "7: continuations with an index alone",
            [_piece(0, "a", "f", ""), _piece(0, None, None, '{"x"'), _piece(0, None, None, ": 1}")],
            one,
        ),
        (
            "8: pieces of two calls interleave",
            [_piece(0, "a", "f", '{"x"'), _piece(1, "b", "g", '{"y"')]
            + [_piece(0, None, None, ": 1}"), _piece(1, None, None, ": 2}")],
            two,
        ),
        (
            "9: empty names later",
            [_piece(0, "a", "f", '{"x"'), _piece(0, "", "", ": 1}")],
            one,
        ),
        (
            "10: null arguments first",
            [{"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": None}}]}]
            + [_piece(0, None, None, '{"x": 1}')],
            one,
        ),
        ("11: no arguments", [_piece(0, "a", "f", ""), _piece(1, "b", "g")], [("f", ""), ("g", "")]),
        ("14: arguments that are no object", [_piece(0, "a", "f", "[1, "), _piece(0, arguments='"x"]')],
         [("f", '[1, "x"]')]),
        ("18: characters cut anywhere", [_piece(0, "a", "f", json.dumps({"x": SMILE}))]
         + [_piece(1, "b", "g", json.dumps({"x": SMILE}, ensure_ascii=False))],
         [("f", json.dumps({"x": SMILE})), ("g", json.dumps({"x": SMILE}, ensure_ascii=False))]),
    ]
    for name, deltas, expected in calls:
        yield f"{name} (chat)", CHAT, _chunks(deltas), "", expected, "tool_calls"
    said = [{"content": "Hello "}, {"content": SMILE}]
    plain = _chunks(said, "stop")
    forms = {
        "19: CRLF": plain.replace("\n", "\r\n"),
        "19: comments": plain.replace("data: {", ": ping\n\ndata: {"),
        "19: no space": plain.replace("data: ", "data:"),
        "19: a byte order mark": "\ufeff" + plain,
        "19: no blank line at the end": plain.removesuffix("\n\n"),
    }
    for name, body in forms.items():
        yield f"{name} (chat)", CHAT, body, f"Hello {SMILE}", [], "stop"
    stopped = [{"content": "Look."}, _piece(0, "a", "f", '{"x": 1}')]
    yield "20: stop with calls (chat)", CHAT, _chunks(stopped, "stop"), "Look.", one, "stop"
    yield "21: no calls (chat)", CHAT, _chunks(said), f"Hello {SMILE}", [], "stop"
    thought = [{"reasoning_content": "Hm. "}, {"reasoning_content": "Yes."}, {"content": "Yes."}]
    yield "27: a thought (chat)", CHAT, _chunks(thought, "stop"), "Yes.", [], "stop", 8


def _sse(events):
    return "".join(f"event: {it['type']}\ndata: {json.dumps(it)}\n\n" for it in events)


def _response(output=(), status="completed", **more):
    head = {"id": "resp_u", "object": "response", "created_at": 1, "model": "m", "status": status}
    return {**head, "output": list(output), **more}


def _call(at, name, arguments, **more):
    item = {"type": "function_call", "id": f"fc_{at}", "call_id": f"c{at}", "name": name}
    return {**item, "arguments": arguments, "status": "completed", **more}


def _item(kind, at, item):
    return {"type": f"response.output_item.{kind}", "output_index": at, "item": item}


def _arguments(at, delta):
    kind = "response.function_call_arguments.delta"
    return {"type": kind, "output_index": at, "item_id": f"fc_{at}", "delta": delta}


def _text(at, delta):
    kind = "response.output_text.delta"
    place = {"output_index": at, "content_index": 0, "item_id": f"msg_{at}"}
    return {"type": kind, **place, "delta": delta}


def _message(at, text):
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": f"msg_{at}", "role": "assistant", "status": "completed"}
    return {**item, "content": [part]}


def _responses():
    two = [("f", '{"x": 1}'), ("g", '{"y": 2}')]
    created = {"type": "response.created", "response": _response(status="in_progress")}
    done = {"type": "response.completed", "response": _response()}
    items = [_call(at, *call) for at, call in enumerate(two)]
    begun = [_item("added", at, {**item, "arguments": ""}) for at, item in enumerate(items)]
    ended = [_item("done", at, item) for at, item in enumerate(items)]
    pieces = [_arguments(0, '{"x"'), _arguments(1, '{"y"'), _arguments(0, ": 1}")]
    pieces.append(_arguments(1, ": 2}"))
    rows = {
        "2: whole calls": [*begun, *ended],
        "8: pieces of two calls interleave": [*begun, *pieces, *ended],
        "9: no name at the end": [begun[0], *pieces[0:1], *pieces[2:3]]
        + [_item("done", 0, {**items[0], "name": ""}), begun[1], ended[1]],
        "5: no ids": [_item("done", at, {**it, "id": None, "call_id": None}) for at, it in enumerate(items)],
    }
    for name, events in rows.items():
        body = _sse([created, *events, done])
        yield f"{name} (responses)", RESPONSES, body, "", two, "response.completed"
    noargs = [_item("done", 0, _call(0, "f", ""))]
    yield "11: no arguments (responses)", RESPONSES, _sse([created, *noargs, done]), "", [
        ("f", "")
    ], "response.completed"
    said = [_item("added", 0, {**_message(0, ""), "content": []}), _text(0, "Hello "), _text(0, SMILE)]
    said.append(_item("done", 0, _message(0, f"Hello {SMILE}")))
    lifecycles = [created, created, *said, done, created, done]
    text = f"Hello {SMILE}"
    yield "29: two lifecycles (responses)", RESPONSES, _sse(lifecycles), text, [], "response.completed"
    unnamed = _sse([created, *said, done]).replace("event: ", ": ")
    yield "19: no event names (responses)", RESPONSES, unnamed, text, [], "response.completed"
    crlf = _sse([created, *said, done]).replace("\n", "\r\n")
    yield "19: CRLF (responses)", RESPONSES, crlf, text, [], "response.completed"


def _block(at, block, *deltas):
    yield {"type": "content_block_start", "index": at, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": at, "delta": delta}
    yield {"type": "content_block_stop", "index": at}


def _use(at, name, given=None):
    return {"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": {} if given is None else given}


def _json(text):
    return {"type": "input_json_delta", "partial_json": text}


def _messages():
    two = [("f", '{"x": 1}'), ("g", '{"y": 2}')]
    usage = {"input_tokens": 3, "output_tokens": 1}
    message = {"id": "msg_u", "type": "message", "role": "assistant", "model": "m", "content": []}
    ends = {"stop_reason": None, "stop_sequence": None}
    start = {"type": "message_start", "message": {**message, **ends, "usage": usage}}

    def told(events, reason):
        delta = {"stop_reason": reason, "stop_sequence": None}
        end = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}
        return _sse([start, *events, end, {"type": "message_stop"}])

    begun = [next(_block(at, _use(at, name))) for at, (name, _) in enumerate(two)]
    stops = [{"type": "content_block_stop", "index": at} for at in range(2)]
    halves = [
        {"type": "content_block_delta", "index": at, "delta": _json(text)}
        for at, text in ((0, '{"x"'), (1, '{"y"'), (0, ": 1}"), (1, ": 2}"))
    ]
    whole = [*_block(0, _use(0, "f", {"x": 1})), *_block(1, _use(1, "g", {"y": 2}))]
    as_text = [*_block(0, _use(0, "f", '{"x": 1}')), *_block(1, _use(1, "g", '{"y": 2}'))]
    usual = [*_block(0, _use(0, "f"), _json(""), _json('{"x": 1}'))]
    usual += [*_block(1, _use(1, "g"), _json('{"y": 2}'))]
    rows = {
        "2: inputs in the blocks' beginnings": whole,
        "8: pieces of two calls interleave": [*begun, *halves, *stops],
        "41: inputs as strings": as_text,
    }
    for name, events in rows.items():
        yield f"{name} (messages)", MESSAGES, told(events, "tool_use"), "", two, "tool_use"
    # The end that this surface is told is the calls' own.
    yield "20: end_turn with calls (messages)", MESSAGES, told(usual, "end_turn"), "", two, "tool_use"
    noargs = [*_block(0, _use(0, "f")), *_block(1, _use(1, "g"), _json(""))]
    none = [("f", ""), ("g", "")]
    yield "11: no input (messages)", MESSAGES, told(noargs, "tool_use"), "", none, "tool_use"
    text = [*_block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": SMILE})]
    yield "21: no calls (messages)", MESSAGES, told(text, "end_turn"), SMILE, [], "end_turn"
    crlf = told(text, "end_turn").replace("\n", "\r\n")
    yield "19: CRLF (messages)", MESSAGES, crlf, SMILE, [], "end_turn"
    thought = [
        *_block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Hm."},
            {"type": "signature_delta", "signature": "SIG"},
        ),
        *_block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": SMILE}),
    ]
    yield "27: a thought (messages)", MESSAGES, told(thought, "end_turn"), SMILE, [], "end_turn", 3
