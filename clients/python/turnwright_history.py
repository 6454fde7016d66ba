"""A LangChain chat message history that Turnwright keeps.

    from turnwright_history import TurnwrightChatMessageHistory

    history = TurnwrightChatMessageHistory("http://127.0.0.1:8787", key, "session-1")
    history.add_messages([HumanMessage("Hello")])
    history.messages

It needs `langchain-core` (1.x) and `httpx`, which that brings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

import httpx
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_openai_messages,
)

# Rows of one request, and of one page.
ROWS_MAX = 100
# The content of a result that is not there yet, as of a call that waits for an approval.
NO_RESULT_YET = "There is no result yet."


class TurnwrightError(Exception):
    """What the server refused: `status`, and `code` and `param` where it gave them."""

    def __init__(self, status: int, error: dict[str, Any]):
        super().__init__(error.get("message") or f"the server answered {status}")
        self.status = status
        self.code = error.get("code")
        self.param = error.get("param")


class TurnwrightChatMessageHistory(BaseChatMessageHistory):
    """The messages of one conversation.

    The conversation is made by the first messages that are added, under the name that is given here. `user` names the
    end user whose it is; where one is named, nobody else sees it.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        conversation: str,
        *,
        user: str | None = None,
        client: httpx.Client | None = None,
    ):
        self._at = f"{base_url.rstrip('/')}/v1/conversations/{quote(conversation, safe='')}"
        self._headers = {"authorization": f"Bearer {api_key}"}
        if user is not None:
            self._headers["turnwright-user"] = user
        self._client = client or httpx.Client(timeout=60)

    @property
    def messages(self) -> list[BaseMessage]:
        """All messages, oldest first; none of a conversation that is not there."""
        return [message_of(row) for row in self.rows()]

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the messages, read page by page."""
        after: str | None = None
        while True:
            query = {"shape": "langchain", "limit": str(ROWS_MAX)}
            if after is not None:
                query["after"] = after
            answer = self._client.get(f"{self._at}/messages", params=query, headers=self._headers)
            if answer.status_code == 404 and after is None:
                return
            page = _told(answer)
            yield from page["data"]
            if not page["has_more"]:
                return
            after = page["last_id"]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Appends messages. A result follows the message that makes its call, and is given once."""
        rows = [row_of(message) for message in messages]
        for first in range(0, len(rows), ROWS_MAX):
            body = {"rows": rows[first : first + ROWS_MAX]}
            answer = self._client.post(
                f"{self._at}/rows", params={"shape": "langchain"}, json=body, headers=self._headers
            )
            _told(answer)

    def clear(self) -> None:
        """Deletes the conversation; its name is free again."""
        answer = self._client.delete(self._at, headers=self._headers)
        if answer.status_code != 404:
            _told(answer)


def _told(answer: httpx.Response) -> Any:
    if answer.is_success:
        return answer.json()
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        error = {}
    raise TurnwrightError(answer.status_code, error)


def message_of(row: dict[str, Any]) -> BaseMessage:
    """The message that a row of the shape `langchain` is, of the API or of the SQL view."""
    metadata = _json(row.get("metadata")) or {}
    content = metadata.get("content") or row["content"]
    match row["role"]:
        case "user":
            return HumanMessage(content=content, id=row["id"])
        case "assistant":
            kept: dict[str, Any] = {}
            if "reasoning" in metadata:
                kept["reasoning_content"] = metadata["reasoning"]
            told = {"model_name": metadata["model"]} if "model" in metadata else {}
            calls = [{**call, "type": "tool_call"} for call in _json(row["tool_calls"]) or []]
            invalid = [
                {**call, "type": "invalid_tool_call", "error": None}
                for call in metadata.get("invalid_tool_calls", [])
            ]
            return AIMessage(
                content=content,
                id=row["id"],
                tool_calls=calls,
                invalid_tool_calls=invalid,
                additional_kwargs=kept,
                response_metadata=told,
            )
        case "tool":
            is_there = row["status"] != "pending"
            return ToolMessage(
                content=content if is_there else NO_RESULT_YET,
                id=row["id"],
                tool_call_id=row["tool_call_id"],
                name=row["tool_name"],
                status="success" if row["status"] == "success" else "error",
            )
        case role:
            raise ValueError(f"a row with the role {role!r}")


def row_of(message: BaseMessage) -> dict[str, Any]:
    """The row of a message, without what the server fills in.

    Ids, usage and response metadata of messages are not kept.
    """
    text, parts = _content_of(message)
    row: dict[str, Any] = {"content": text}
    metadata: dict[str, Any] = {}
    if parts:
        metadata["content"] = parts
    match message:
        case HumanMessage():
            row["role"] = "user"
        case AIMessage():
            row["role"] = "assistant"
            if message.tool_calls:
                row["tool_calls"] = [_call(call) for call in message.tool_calls]
            if message.invalid_tool_calls:
                metadata["invalid_tool_calls"] = [_call(call) for call in message.invalid_tool_calls]
            if reasoning := message.additional_kwargs.get("reasoning_content"):
                metadata["reasoning"] = reasoning
        case ToolMessage():
            row["role"] = "tool"
            row["tool_call_id"] = message.tool_call_id
            row["tool_name"] = message.name
            row["status"] = message.status
        case _:
            raise ValueError(f"a message of the type {message.type!r} has no row: what a system says is not kept")
    if metadata:
        row["metadata"] = metadata
    return row


def _call(call: Any) -> dict[str, Any]:
    return {"id": call["id"], "name": call["name"], "args": call["args"]}


def _content_of(message: BaseMessage) -> tuple[str, list[dict[str, Any]]]:
    """The text of a message, and all its parts where it is more than text."""
    if isinstance(message.content, str):
        return message.content, []
    converted = convert_to_openai_messages([message], text_format="block")[0]["content"]
    parts = [{"type": "text", "text": converted}] if isinstance(converted, str) else converted or []
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    if all(part["type"] == "text" for part in parts):
        return text, []
    return text, parts


def _json(value: Any) -> Any:
    """A column of JSON, which some drivers give as text."""
    return json.loads(value) if isinstance(value, str) else value
