"""langchain-openai, by either of its formats, and langchain-anthropic: a model with bound tools in a loop of one's
own, and LangChain's agent.
"""

import json

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, ToolMessage, convert_to_messages
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI

import job as own

OUTPUT_TOKENS_MAX = 1000
# Where the formats' ends are kept.
FINISHES = ("finish_reason", "status", "stop_reason")


def _chat(job, **more):
    return ChatOpenAI(
        base_url=job.url,
        api_key=job.key,
        model=job.model,
        max_retries=0,
        stream_usage=True,
        model_kwargs={} if job.user is None else {"user": job.user},
        **more,
    )


def _responses(job):
    return _chat(job, use_responses_api=True)


def _messages(job):
    return ChatAnthropic(
        base_url=job.url.removesuffix("/v1"),
        api_key=job.key,
        model=job.model,
        max_tokens=OUTPUT_TOKENS_MAX,
        max_retries=0,
        # It does not send `metadata`.
        default_headers={} if job.user is None else {"turnwright-user": job.user},
    )


MODELS = {
    "langchain-openai": _chat,
    "langchain-openai responses": _responses,
    "langchain-anthropic": _messages,
}


def _model(job):
    (model,) = [it for it in MODELS if any(job.client == f"{it} {way}" for way in WAYS)]
    return MODELS[model](job)


def _tools(job):
    """The client's own tool as LangChain has tools, the server's by their names."""
    tool = StructuredTool.from_function(
        job.pick_color, name="pick_color", description=own.DESCRIPTION, args_schema=own.PARAMETERS
    )
    declared = {entry["function"]["name"]: entry for entry in job.declared() or []}
    if job.client.startswith("langchain-anthropic"):
        for entry in declared.values():
            # It takes no tool without these.
            entry["function"].setdefault("description", "")
            entry["function"].setdefault("parameters", {"type": "object", "properties": {}})
    return [tool if name == "pick_color" else entry for name, entry in declared.items()]


async def _loop(job, ask):
    model, tools = _model(job), _tools(job)
    bound = model.bind_tools(tools) if tools else model
    messages = convert_to_messages(job.messages)
    while True:
        message = await ask(bound, messages)
        _answered(job, message)
        messages.append(message)
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            said = job.pick_color(**call["args"])
            messages.append(ToolMessage(said, tool_call_id=call["id"]))


async def invoke(job):
    await _loop(job, lambda model, messages: model.ainvoke(messages))


async def stream(job):
    async def ask(model, messages):
        whole = None
        async for chunk in model.astream(messages):
            job.saw(chunk.text)
            whole = chunk if whole is None else whole + chunk
        return whole

    await _loop(job, ask)


async def agent_invoke(job):
    agent = create_agent(_model(job), _tools(job))
    state = await agent.ainvoke({"messages": job.messages})
    for message in state["messages"][len(job.messages) :]:
        if isinstance(message, AIMessage):
            _answered(job, message)


async def agent_stream(job):
    agent = create_agent(_model(job), _tools(job))
    async for mode, shown in agent.astream(
        {"messages": job.messages}, stream_mode=["messages", "updates"]
    ):
        if mode == "messages":
            if isinstance(shown[0], AIMessage):
                job.saw(shown[0].text)
            continue
        for update in shown.values():
            for message in update["messages"]:
                if isinstance(message, AIMessage):
                    _answered(job, message)


WAYS = {
    "invoke": invoke,
    "stream": stream,
    "agent invoke": agent_invoke,
    "agent stream": agent_stream,
}
CLIENTS = {f"{model} {way}": ask for model in MODELS for way, ask in WAYS.items()}


def _answered(job, message):
    usage = message.usage_metadata
    job.answered(
        # A streamed message has an id of LangChain's own instead.
        message.id if message.id.startswith(("chatcmpl-", "resp_", "msg_")) else None,
        message.text,
        next(filter(None, map(message.response_metadata.get, FINISHES)), None),
        [usage["input_tokens"], usage["output_tokens"]],
        [[call["id"], call["name"], json.dumps(call["args"])] for call in message.tool_calls],
    )
