"""anthropic-sdk-python: plain, by its streaming helper, and by its tool runner."""

import asyncio
import json

import anthropic
from anthropic import beta_async_tool

import job as own

OUTPUT_TOKENS_MAX = 1000


async def create(job):
    await asyncio.to_thread(
        _loop, job, lambda asked: _client(anthropic.Anthropic, job).messages.create(**asked)
    )


async def stream(job):
    client = _client(anthropic.Anthropic, job)

    def ask(asked):
        with client.messages.stream(**asked) as events:
            for text in events.text_stream:
                job.saw(text)
                if job.leaves_at_first_text:
                    return None
            return events.get_final_message()

    await asyncio.to_thread(_loop, job, ask)


async def async_create(job):
    async with _client(anthropic.AsyncAnthropic, job) as client:
        while _next(job, await client.messages.create(**_asked(job))):
            pass


async def async_stream(job):
    async with _client(anthropic.AsyncAnthropic, job) as client:
        going = True
        while going:
            async with client.messages.stream(**_asked(job)) as events:
                async for text in events.text_stream:
                    job.saw(text)
                going = _next(job, await events.get_final_message())


async def tool_runner(job):
    """The client's own loop, which asks at `/v1/messages?beta=true`."""
    asked = _asked(job)

    async def pick_color(mood: str) -> str:
        return job.pick_color(mood)

    runnable = beta_async_tool(
        pick_color, description=own.DESCRIPTION, input_schema=own.PARAMETERS
    )
    tools = [runnable if it["name"] == own.OWN else it for it in asked.pop("tools", [])]
    async with _client(anthropic.AsyncAnthropic, job) as client:
        async for message in client.beta.messages.tool_runner(tools=tools, **asked):
            _answered(job, message)


CLIENTS = {
    "anthropic-python create": create,
    "anthropic-python stream": stream,
    "anthropic-python async create": async_create,
    "anthropic-python async stream": async_stream,
    "anthropic-python tool runner": tool_runner,
}


def _client(kind, job):
    return kind(base_url=job.url.removesuffix("/v1"), api_key=job.key, max_retries=0)


def _loop(job, ask):
    while (message := ask(_asked(job))) and _next(job, message):
        pass


def _asked(job):
    asked = {"model": job.model, "messages": job.messages, "max_tokens": OUTPUT_TOKENS_MAX}
    if job.tools is not None:
        asked["tools"] = [_declared(entry["function"]) for entry in job.declared()]
    if job.user is not None:
        asked["metadata"] = {"user_id": job.user}
    return asked


def _declared(function):
    """A tool as the Messages format has it."""
    shown = {key: value for key, value in function.items() if key != "parameters"}
    return {**shown, "input_schema": function.get("parameters", {"type": "object"})}


def _answered(job, message):
    usage = message.usage
    calls = [block for block in message.content if block.type == "tool_use"]
    job.answered(
        message.id,
        "".join(block.text for block in message.content if block.type == "text"),
        message.stop_reason,
        [usage.input_tokens, usage.output_tokens],
        [[call.id, call.name, json.dumps(call.input)] for call in calls],
    )
    return calls


def _next(job, message):
    """Keeps the answer; runs the calls of the client's own tool, and says whether to go on."""
    calls = _answered(job, message)
    content = [block.model_dump(exclude_none=True) for block in message.content]
    for block in content:
        # The helper's own field is none of the format's.
        block.pop("parsed_output", None)
    job.messages.append({"role": "assistant", "content": content})
    results = []
    for call in calls:
        assert call.name == own.OWN, f"{call.name} was called here"
        said = job.pick_color(**call.input)
        results.append({"type": "tool_result", "tool_use_id": call.id, "content": said})
    if results:
        job.messages.append({"role": "user", "content": results})
    return bool(calls)
