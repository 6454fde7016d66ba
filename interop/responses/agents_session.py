"""The OpenAI Agents SDK with the session that keeps its history in a conversation."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from agents import (
    Agent,
    ModelSettings,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    set_tracing_disabled,
)


def drive(base_url: str, key: str) -> dict[str, Any]:
    return asyncio.run(converse(base_url, key))


async def converse(base_url: str, key: str) -> dict[str, Any]:
    set_tracing_disabled(True)
    got: dict[str, Any] = {"answers": []}
    async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
        model = OpenAIResponsesModel("any", openai_client=client)
        # An agent without tools sends an empty list, to which the key's tools are added.
        settings = ModelSettings(extra_headers={"turnwright-tools": "add"})
        agent = Agent(name="sums", model=model, model_settings=settings)
        session = OpenAIConversationsSession(openai_client=client)
        for said in ("6 * 7?", "again?"):
            ran = await Runner.run(agent, said, session=session)
            got["answers"].append(ran.final_output)
        items = await session.get_items()
        got["roles"] = [item.get("role") for item in items]
        got["popped"] = (await session.pop_item())["content"][0]["text"]
        got["left"] = len(await session.get_items())
        name = session.session_id
        await session.clear_session()
        try:
            await client.conversations.retrieve(name)
            got["cleared"] = ["there"]
        except openai.NotFoundError:
            got["cleared"] = []
    return got
