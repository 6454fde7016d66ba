"""openai-python's Responses: plain and by its streaming helper, synchronous and not."""

import asyncio
import json

import openai

import job as own


async def create(job):
    client = openai.OpenAI(base_url=job.url, api_key=job.key, max_retries=0)
    await asyncio.to_thread(_loop, job, lambda asked: client.responses.create(**asked))


async def stream(job):
    client = openai.OpenAI(base_url=job.url, api_key=job.key, max_retries=0)

    def ask(asked):
        with client.responses.stream(**asked) as events:
            for event in events:
                if event.type == "response.output_text.delta":
                    job.saw(event.delta)
                    if job.leaves_at_first_text:
                        return None
            return events.get_final_response()

    await asyncio.to_thread(_loop, job, ask)


async def async_create(job):
    async with openai.AsyncOpenAI(base_url=job.url, api_key=job.key, max_retries=0) as client:
        while _next(job, await client.responses.create(**_asked(job))):
            pass


async def async_stream(job):
    async with openai.AsyncOpenAI(base_url=job.url, api_key=job.key, max_retries=0) as client:
        going = True
        while going:
            async with client.responses.stream(**_asked(job)) as events:
                async for event in events:
                    if event.type == "response.output_text.delta":
                        job.saw(event.delta)
                going = _next(job, await events.get_final_response())


CLIENTS = {
    "openai-python responses create": create,
    "openai-python responses stream": stream,
    "openai-python responses async create": async_create,
    "openai-python responses async stream": async_stream,
}


def declared(job):
    """The tools as the Responses format has them."""
    entries = [entry["function"] for entry in job.declared()]
    return [
        {"type": "function", **entry, **({"strict": False} if "parameters" in entry else {})}
        for entry in entries
    ]


def _loop(job, ask):
    while (response := ask(_asked(job))) and _next(job, response):
        pass


def _asked(job):
    asked = {"model": job.model, "input": job.messages}
    if job.tools is not None:
        asked["tools"] = declared(job)
    if job.user is not None:
        asked["user"] = job.user
    return asked


def _next(job, response):
    """Keeps the answer; runs the calls of the client's own tool, and says whether to go on."""
    calls = [item for item in response.output if item.type == "function_call"]
    job.answered(
        response.id,
        response.output_text,
        response.status,
        [response.usage.input_tokens, response.usage.output_tokens],
        [[call.call_id, call.name, call.arguments] for call in calls],
    )
    # The helper's own fields are none of the format's.
    parsed = {"parsed_arguments", "parsed"}
    job.messages += [_without(item.model_dump(exclude_none=True), parsed) for item in response.output]
    for call in calls:
        assert call.name == own.OWN, f"{call.name} was called here"
        said = job.pick_color(**json.loads(call.arguments))
        job.messages.append(
            {"type": "function_call_output", "call_id": call.call_id, "output": said}
        )
    return bool(calls)


def _without(value, names):
    if isinstance(value, dict):
        return {key: _without(it, names) for key, it in value.items() if key not in names}
    if isinstance(value, list):
        return [_without(it, names) for it in value]
    return value
