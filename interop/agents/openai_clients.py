"""openai-python: plain and by its streaming helper, synchronous and not."""

import asyncio
import json

import openai


async def create(job):
    client = openai.OpenAI(base_url=job.url, api_key=job.key, max_retries=0)
    await asyncio.to_thread(_loop, job, lambda asked: client.chat.completions.create(**asked))


async def stream(job):
    client = openai.OpenAI(base_url=job.url, api_key=job.key, max_retries=0)

    def ask(asked):
        with client.chat.completions.stream(
            stream_options={"include_usage": True}, **asked
        ) as events:
            for event in events:
                if event.type == "content.delta":
                    job.saw(event.delta)
                    if job.leaves_at_first_text and event.delta:
                        return None
            return events.get_final_completion()

    await asyncio.to_thread(_loop, job, ask)


async def async_create(job):
    async with openai.AsyncOpenAI(base_url=job.url, api_key=job.key, max_retries=0) as client:
        while _next(job, await client.chat.completions.create(**_asked(job))):
            pass


async def async_stream(job):
    async with openai.AsyncOpenAI(base_url=job.url, api_key=job.key, max_retries=0) as client:
        going = True
        while going:
            async with client.chat.completions.stream(
                stream_options={"include_usage": True}, **_asked(job)
            ) as events:
                async for event in events:
                    if event.type == "content.delta":
                        job.saw(event.delta)
                going = _next(job, await events.get_final_completion())


CLIENTS = {
    "openai-python create": create,
    "openai-python stream": stream,
    "openai-python async create": async_create,
    "openai-python async stream": async_stream,
}


def _loop(job, ask):
    while (completion := ask(_asked(job))) and _next(job, completion):
        pass


def _asked(job):
    asked = {"model": job.model, "messages": job.messages}
    if job.tools is not None:
        asked["tools"] = job.declared()
    if job.user is not None:
        asked["user"] = job.user
    return asked


def _next(job, completion):
    """Keeps the answer; runs the calls of the client's own tool, and says whether to go on."""
    (choice,) = completion.choices
    message, usage = choice.message, completion.usage
    calls = message.tool_calls or []
    job.answered(
        completion.id,
        message.content or "",
        choice.finish_reason,
        [usage.prompt_tokens, usage.completion_tokens],
        [[call.id, call.function.name, call.function.arguments] for call in calls],
    )
    job.messages.append(message.model_dump(exclude_none=True))
    for call in calls:
        said = job.pick_color(**json.loads(call.function.arguments))
        job.messages.append({"role": "tool", "tool_call_id": call.id, "content": said})
    return bool(calls)
