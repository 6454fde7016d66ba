"""Messages and Responses as their official clients see them: plain and streamed, with the server's tools and with the
client's own, and what is refused. A stream of each format that breaks off, read on from where it did.

Every function named `test_…` runs against one server before a scripted model.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import traceback
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import anthropic
import openai
from server import Server, create_key

SCRIPT = """
[[rule]]
when = { last_role = "user", has_tool = "get_weather" }
calls = [{ name = "get_weather", arguments = { city = "Oslo" } }]

[[rule]]
when = { last_role = "user", has_tool = "calculate" }
text = "Let me see."
calls = [{ name = "calculate", arguments = { expression = "6 * 7" } }]

[[rule]]
text_pieces = ["It is ", "42."]
"""
ASKED = [{"role": "user", "content": "6 * 7?"}]
SAID = ["Let me see.", "It is 42."]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
RETRIES = 0


@dataclass
class Place:
    """A server, a key with its tools, and a key without any."""

    url: str
    with_tools: str
    plain: str

    def anthropic(self, key: str | None = None) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url=self.url, api_key=key or self.with_tools, max_retries=RETRIES)

    def openai(self, key: str | None = None) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key or self.with_tools, max_retries=RETRIES)


def test_messages_with_the_servers_tools(place: Place) -> None:
    client = place.anthropic()
    whole = client.messages.create(model="any", max_tokens=100, messages=ASKED)
    assert [block.text for block in whole.content] == SAID, whole
    assert whole.stop_reason == "end_turn" and whole.usage.output_tokens > 0, whole
    with client.messages.stream(model="any", max_tokens=100, messages=ASKED) as stream:
        assert "".join(stream.text_stream) == "".join(SAID)
        final = stream.get_final_message()
    assert [block.text for block in final.content] == SAID, final
    assert final.stop_reason == "end_turn", final


def test_messages_take_the_key_in_either_header(place: Place) -> None:
    bearer = anthropic.Anthropic(base_url=place.url, auth_token=place.plain, api_key=None, max_retries=RETRIES)
    answer = bearer.messages.create(model="any", max_tokens=100, messages=ASKED)
    assert answer.content[0].text == SAID[1], answer


def test_messages_with_a_tool_of_the_client(place: Place) -> None:
    client = place.anthropic(place.plain)
    tools = [{"name": "get_weather", "input_schema": SCHEMA}]
    wanted = {"model": "any", "max_tokens": 100, "tools": tools}
    for streamed in (False, True):
        if streamed:
            with client.messages.stream(messages=ASKED, **wanted) as stream:
                asked = stream.get_final_message()
        else:
            asked = client.messages.create(messages=ASKED, **wanted)
        (call,) = [block for block in asked.content if block.type == "tool_use"]
        assert asked.stop_reason == "tool_use" and call.input == {"city": "Oslo"}, asked
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny"}
        history = [*ASKED, {"role": "assistant", "content": asked.content}, {"role": "user", "content": [result]}]
        answer = client.messages.create(messages=history, **wanted)
        assert answer.content[0].text == SAID[1], answer


def test_messages_are_refused_in_their_own_words(place: Place) -> None:
    refusals = (
        (place.plain, 0, anthropic.BadRequestError, "invalid_request_error"),
        ("tw-nobodys", 1, anthropic.AuthenticationError, "authentication_error"),
    )
    for key, tokens, error, kind in refusals:
        try:
            place.anthropic(key).messages.create(model="any", max_tokens=tokens, messages=ASKED)
        except error as refused:
            assert refused.body["error"]["type"] == kind, refused.body
        else:
            raise AssertionError(f"{kind}: it was answered")


def test_messages_are_not_counted_where_nobody_counts(place: Place) -> None:
    try:
        place.anthropic().messages.count_tokens(model="any", messages=ASKED)
    except anthropic.NotFoundError as refused:
        assert refused.body["error"]["type"] == "not_found_error", refused.body
        assert refused.request_id == refused.body["request_id"], refused.body
    else:
        raise AssertionError("a scripted model does not count")


def test_a_compaction_takes_the_place_of_what_was_said(place: Place) -> None:
    client = place.openai(place.plain)
    made = client.responses.compact(model="any", input=ASKED)
    (item,) = [item.model_dump(exclude_none=True) for item in made.output]
    assert (made.object, item["type"], made.usage.total_tokens) == ("response.compaction", "compaction", 0), made
    answer = client.responses.create(model="any", input=[item, {"role": "user", "content": "Sure?"}])
    assert answer.output_text == SAID[1], answer
    item["encrypted_content"] = item["encrypted_content"][:-4]
    try:
        client.responses.create(model="any", input=[item])
    except openai.BadRequestError as refused:
        assert refused.code == "invalid_encrypted_content", refused
    else:
        raise AssertionError("it was opened")


def test_responses_with_the_servers_tools(place: Place) -> None:
    client = place.openai()
    whole = client.responses.create(model="any", input="6 * 7?")
    assert [item.type for item in whole.output] == ["message", "mcp_call", "message"], whole
    assert whole.status == "completed" and whole.output_text == "".join(SAID), whole
    with client.responses.stream(model="any", input="6 * 7?") as stream:
        events = list(stream)
        final = stream.get_final_response()
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers)), numbers
    assert events[0].type == "response.created" and events[-1].type == "response.completed", events
    assert final.output_text == "".join(SAID), final


def test_responses_with_a_tool_of_the_client(place: Place) -> None:
    client = place.openai(place.plain)
    tools = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]
    history: list = [{"role": "user", "content": "weather?"}]
    asked = client.responses.create(model="any", input=history, tools=tools, store=False)
    (call,) = [item for item in asked.output if item.type == "function_call"]
    assert call.arguments == '{"city":"Oslo"}', call
    history += [item.model_dump(exclude_none=True) for item in asked.output]
    history.append({"type": "function_call_output", "call_id": call.call_id, "output": "sunny"})
    answer = client.responses.create(model="any", input=history, tools=tools, store=False)
    assert answer.output_text == SAID[1], answer


def test_unknown_conversations_of_responses_are_refused(place: Place) -> None:
    try:
        place.openai().responses.create(model="any", input="Hi", conversation="conv_1")
    except openai.NotFoundError as refused:
        assert (refused.code, refused.param) == ("conversation_not_found", "conversation"), refused
    else:
        raise AssertionError("it was answered")


STREAMED: dict[str, tuple[str, dict[str, object]]] = {
    "chat": ("/v1/chat/completions", {"messages": ASKED}),
    "responses": ("/v1/responses", {"input": ASKED}),
    "messages": ("/v1/messages", {"messages": ASKED, "max_tokens": 100}),
}


def test_streams_are_read_on_from_every_event(place: Place) -> None:
    headers = {"authorization": f"Bearer {place.with_tools}", "content-type": "application/json"}
    for word, (path, wanted) in STREAMED.items():
        body = json.dumps({"model": "any", "stream": True, **wanted}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{place.url}{path}", body, headers)) as answer:
            turn, live = answer.headers["turnwright-turn"], answer.read()
        events = [event + b"\n\n" for event in live.split(b"\n\n")[:-1]]
        assert len(events) > len(SAID) and b"42" in live, live
        for seen in range(len(events) + 1):
            there = f"{place.url}/v1/turns/{turn}/events?format={word}&skip={seen}"
            with urllib.request.urlopen(urllib.request.Request(there, headers=headers)) as rest:
                parts = b"".join(events[:seen]) + rest.read()
            assert parts == live, f"{word}, {seen} events seen: {parts!r}"


def main() -> int:
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
    root = Path(tempfile.mkdtemp(prefix="turnwright-formats-"))
    script = root / "script.toml"
    script.write_text(SCRIPT)
    server = Server(root / "server", f'[[upstream]]\nname = "model"\nkind = "scripted"\nscript = "{script}"\n')
    with_tools = create_key(server.data, "--tools", "all")
    place = Place(server.url, with_tools, create_key(server.data))
    server.start()
    failed = 0
    try:
        for name, test in tests.items():
            try:
                test(place)
                print(f"ok {name.removeprefix('test_')}")
            except Exception:  # noqa: BLE001 - whatever it was, the others still run
                failed += 1
                print(f"FAILED {name.removeprefix('test_')}\n{traceback.format_exc()}")
    finally:
        server.kill()
        if not failed:
            shutil.rmtree(root)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
