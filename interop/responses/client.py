"""What openai-python reads of responses that are kept: the same steps as client.mjs."""

from __future__ import annotations

import time
from typing import Any

import openai

ENDED_WITHIN_S = 20.0
POLL_S = 0.02
OVER = ("completed", "incomplete", "failed", "cancelled")
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}


def refused(what: Any) -> list[Any]:
    try:
        what()
    except openai.APIStatusError as error:
        return [type(error).__name__, error.status_code, error.code, error.param]
    return ["answered"]


def ended(client: openai.OpenAI, response: Any) -> Any:
    until = time.monotonic() + ENDED_WITHIN_S
    while response.status not in OVER and time.monotonic() < until:
        time.sleep(POLL_S)
        response = client.responses.retrieve(response.id)
    return response


def drive(base_url: str, key: str) -> dict[str, Any]:
    client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0)
    got: dict[str, Any] = {}

    one = client.responses.create(model="any", input="6 * 7?")
    two = client.responses.create(model="any", input="again?", previous_response_id=one.id)
    got["continued"] = [two.output_text, two.previous_response_id == one.id]
    got["retrieved"] = client.responses.retrieve(two.id).to_dict() == two.to_dict()

    asked = client.responses.create(model="any", input="weather?", tools=[WEATHER])
    (call,) = [item for item in asked.output if item.type == "function_call"]
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    told = client.responses.create(model="any", input=[output], tools=[WEATHER], previous_response_id=asked.id)
    got["told"] = told.output_text

    live = list(client.responses.create(model="any", input="6 * 7?", stream=True))
    name = live[0].response.id
    got["numbers"] = [event.sequence_number for event in live] == list(range(len(live)))
    got["resumed"] = []
    for seen in range(len(live)):
        rest = list(client.responses.retrieve(name, stream=True, starting_after=seen))
        if [event.to_dict() for event in rest] != [event.to_dict() for event in live[seen + 1 :]]:
            got["resumed"].append(seen)
    got["lost"] = refused(lambda: list(client.responses.retrieve(name, stream=True, starting_after=len(live))))

    begun = client.responses.create(model="any", input="6 * 7?", background=True)
    got["begun"] = [begun.status in ("queued", "in_progress"), begun.background]
    end = ended(client, begun)
    got["background"] = [end.status, end.output_text]
    slow = client.responses.create(model="any", input="slowly", background=True)
    got["cancelled"] = [client.responses.cancel(slow.id).status, client.responses.cancel(slow.id).status]
    stream = client.responses.create(model="any", input="6 * 7?", background=True, stream=True)
    kinds = [event.type for event in stream]
    got["streamed"] = [kinds[:3], kinds[-1]]

    asking = client.responses.create(model="any", input="pay it")
    (question,) = [item for item in asking.output if item.type == "mcp_approval_request"]

    def answer(request_id: str, approve: bool, **more: Any) -> Any:
        given = {"type": "mcp_approval_response", "approval_request_id": request_id, "approve": approve, **more}
        return client.responses.create(model="any", input=[given], previous_response_id=asking.id)

    paid = answer(question.id, True)
    (call,) = [item for item in paid.output if item.type == "mcp_call"]
    by = call.approval_request_id == question.id
    got["approved"] = [question.server_label, question.name, question.arguments, call.output, by, paid.output_text]
    got["twice"] = refused(lambda: answer(question.id, False))
    got["not asked"] = refused(lambda: answer(question.id[:-8] + "00000000", True))
    live = list(client.responses.create(model="any", input="pay it", stream=True))
    told = [event for event in live if getattr(getattr(event, "item", None), "type", "") == "mcp_approval_request"]
    asking = live[-1].response
    left = answer(told[0].item.id, False, reason="no")
    (call,) = [item for item in left.output if item.type == "mcp_call"]
    got["denied"] = [[event.type for event in told], call.error, left.output_text]

    listed = client.responses.input_items.list(two.id, order="asc", limit=1)
    got["items"] = [item.content[0].text for item in listed]
    client.responses.delete(two.id)
    got["gone"] = refused(lambda: client.responses.retrieve(two.id))
    got["unknown"] = refused(lambda: client.responses.create(model="any", input="x", previous_response_id=two.id))
    converse(client, got)
    client.close()
    return got


def converse(client: openai.OpenAI, got: dict[str, Any]) -> None:
    """A conversation with items: made, answered in, listed, changed, and taken apart."""
    mine = client.conversations.create(
        metadata={"topic": "sums"}, items=[{"type": "message", "role": "user", "content": "I am Ann."}]
    )
    got["made"] = [mine.id.startswith("conv_"), mine.object, mine.metadata]
    one = client.responses.create(model="any", input="6 * 7?", conversation=mine.id)
    got["of_conversation"] = [one.output_text, one.conversation.id == mine.id]
    added = client.conversations.items.create(
        mine.id, items=[{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Mind this."}]}]
    )
    note = added.data[0]
    got["added"] = [note.type, note.role, note.status, note.content[0].text]
    again = client.responses.create(model="any", input="again?", conversation={"id": mine.id}, stream=True)
    got["streamed_into"] = [event.type for event in again][-1]
    # In pages of two, by the client's own paging.
    listed = [item.type for item in client.conversations.items.list(mine.id, order="asc", limit=2)]
    got["kinds"] = listed
    newest = client.conversations.items.list(mine.id, limit=1).data[0]
    read = client.conversations.items.retrieve(newest.id, conversation_id=mine.id)
    got["newest"] = [read.to_dict() == newest.to_dict(), read.content[0].text]
    left = client.conversations.items.delete(note.id, conversation_id=mine.id)
    got["left"] = [left.id == mine.id, len(list(client.conversations.items.list(mine.id)))]
    changed = client.conversations.update(mine.id, metadata={"topic": "products"})
    got["changed"] = [changed.metadata, client.conversations.retrieve(mine.id).metadata]
    slow = client.responses.create(model="any", input="slowly", conversation=mine.id, background=True)
    got["locked"] = refused(lambda: client.responses.create(model="any", input="x", conversation=mine.id))
    gone = client.conversations.delete(mine.id)
    got["deleted"] = [gone.id == mine.id, gone.deleted, gone.object]
    got["stopped"] = refused(lambda: client.responses.retrieve(slow.id))
    got["no_conversation"] = refused(lambda: client.conversations.items.list(mine.id))
    got["not_in"] = refused(lambda: client.responses.create(model="any", input="x", conversation=mine.id))
