"""What the OpenAI Agents SDK makes of approvals: it knows them of MCP servers, and this server calls itself one."""

from __future__ import annotations

import asyncio
import os
from typing import Any

os.environ.setdefault("OPENAI_AGENTS_DISABLE_TRACING", "1")

import openai  # noqa: E402 - the SDK reads its environment as it is imported
from agents import Agent, HostedMCPTool, ModelSettings, OpenAIResponsesModel, Runner  # noqa: E402

SERVER = {
    "type": "mcp",
    # The label of the questions. The server behind it is this one, whatever the address says.
    "server_label": "turnwright",
    "server_url": "https://turnwright.invalid",
    "require_approval": "always",
}


async def run(base_url: str, key: str, *, approve: bool, streamed: bool) -> list[Any]:
    asked: list[str] = []

    def decide(request: Any) -> dict[str, Any]:
        asked.append(request.data.name)
        return {"approve": True} if approve else {"approve": False, "reason": "no"}

    async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
        agent = Agent(
            name="payer",
            model=OpenAIResponsesModel("any", client),
            # A list is exact unless the key's tools are added to it.
            model_settings=ModelSettings(extra_headers={"turnwright-tools": "add"}),
            tools=[HostedMCPTool(tool_config=SERVER, on_approval_request=decide)],
        )
        if streamed:
            running = Runner.run_streamed(agent, "pay it")
            async for _ in running.stream_events():
                pass
            return [asked, running.final_output]
        return [asked, (await Runner.run(agent, "pay it")).final_output]


def drive(base_url: str, key: str) -> dict[str, Any]:
    got = {}
    for streamed in (False, True):
        for approve in (True, False):
            name = f"{'approved' if approve else 'denied'}, {'streamed' if streamed else 'plain'}"
            got[name] = asyncio.run(run(base_url, key, approve=approve, streamed=streamed))
    return got
