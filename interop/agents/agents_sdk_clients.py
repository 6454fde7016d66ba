"""The OpenAI Agents SDK with the model class that it has by default: Responses."""

import json

import openai
from agents import (
    Agent,
    FunctionTool,
    ItemHelpers,
    ModelSettings,
    OpenAIProvider,
    RunConfig,
    RunHooks,
    Runner,
)

import job as own


class Answers(RunHooks):
    """Keeps what each answer of the model says."""

    def __init__(self, job):
        self._job = job

    async def on_llm_end(self, context, agent, response):
        calls = [item for item in response.output if item.type == "function_call"]
        messages = [item for item in response.output if item.type == "message"]
        self._job.answered(
            response.response_id,
            "".join(ItemHelpers.extract_text(message) or "" for message in messages),
            # The SDK does not show it.
            None,
            [response.usage.input_tokens, response.usage.output_tokens],
            [[call.call_id, call.name, call.arguments] for call in calls],
        )


async def run(job):
    async with openai.AsyncOpenAI(base_url=job.url, api_key=job.key, max_retries=0) as client:
        agent, options = _agent(job), _options(job, client)
        await Runner.run(agent, job.messages, run_config=options, hooks=Answers(job))


async def run_streamed(job):
    async with openai.AsyncOpenAI(base_url=job.url, api_key=job.key, max_retries=0) as client:
        agent, options = _agent(job), _options(job, client)
        running = Runner.run_streamed(agent, job.messages, run_config=options, hooks=Answers(job))
        async for event in running.stream_events():
            if event.type == "raw_response_event":
                if event.data.type == "response.output_text.delta":
                    job.saw(event.data.delta)


CLIENTS = {"openai-agents run": run, "openai-agents run streamed": run_streamed}


def _agent(job):
    settings = ModelSettings(extra_body={"user": job.user} if job.user else None)
    tools = [_tool(job, entry["function"]) for entry in job.declared() or []]
    return Agent(name="asks", model=job.model, tools=tools, model_settings=settings)


def _options(job, client):
    return RunConfig(model_provider=OpenAIProvider(openai_client=client), tracing_disabled=True)


def _tool(job, function):
    async def invoke(_context, arguments):
        assert function["name"] == own.OWN, f"{function['name']} was called here"
        return job.pick_color(**json.loads(arguments))

    return FunctionTool(
        name=function["name"],
        description=function.get("description", ""),
        # The server puts its own description and schema in.
        params_json_schema=function.get("parameters", {"type": "object", "properties": {}}),
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
