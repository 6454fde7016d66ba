"""langchain-openai: a model with bound tools in a loop of one's own, and LangChain's agent."""

import json

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage, convert_to_messages
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI

import job as own


def _model(job):
    return ChatOpenAI(
        base_url=job.url,
        api_key=job.key,
        model=job.model,
        max_retries=0,
        stream_usage=True,
        model_kwargs={} if job.user is None else {"user": job.user},
    )


def _tools(job):
    """The client's own tool as LangChain has tools, the server's by their names."""
    tool = StructuredTool.from_function(
        job.pick_color, name="pick_color", description=own.DESCRIPTION, args_schema=own.PARAMETERS
    )
    declared = {entry["function"]["name"]: entry for entry in job.declared() or []}
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


CLIENTS = {
    "langchain-openai invoke": invoke,
    "langchain-openai stream": stream,
    "langchain-openai agent invoke": agent_invoke,
    "langchain-openai agent stream": agent_stream,
}


def _answered(job, message):
    usage = message.usage_metadata
    job.answered(
        # A streamed message has an id of LangChain's own instead.
        message.id if message.id.startswith("chatcmpl-") else None,
        message.text,
        message.response_metadata["finish_reason"],
        [usage["input_tokens"], usage["output_tokens"]],
        [[call["id"], call["name"], json.dumps(call["args"])] for call in message.tool_calls],
    )
