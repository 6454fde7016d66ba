"""What LangChain in Python reads: the same steps as history.mjs."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from turnwright_history import TurnwrightChatMessageHistory, TurnwrightError

IMAGE = "data:image/png;base64,iVBORw0KGgo="


def told(message: BaseMessage) -> list[Any]:
    """A message without its id."""
    if isinstance(message, ToolMessage):
        return ["tool", message.content, message.tool_call_id, message.name, message.status]
    if isinstance(message, AIMessage) and message.tool_calls:
        calls = [[call["id"], call["name"], call["args"]] for call in message.tool_calls]
        return ["ai", message.content, calls]
    return [message.type, message.content]


def call(name: str, call_id: str, **args: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, "args": args, "type": "tool_call"}


@tool
def weather(city: str) -> str:
    """Says the weather."""
    return f"sunny in {city}"


@tool
def fails() -> str:
    """Fails."""
    raise ValueError("it rains")


def run_calls(messages: list[BaseMessage]) -> list[BaseMessage]:
    """The results that LangGraph's node gives to the calls of the last message."""
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode([weather, fails], handle_tool_errors=True))
    graph.add_edge(START, "tools")
    made = graph.compile().invoke({"messages": messages})
    return made["messages"][len(messages) :]


def refused(what: Any) -> list[Any]:
    try:
        what()
    except TurnwrightError as error:
        return [error.status, error.code, error.param]
    return ["added"]


def read(at: dict[str, str]) -> dict[str, Any]:
    def history(name: str, user: str | None = None) -> TurnwrightChatMessageHistory:
        return TurnwrightChatMessageHistory(at["url"], at["key"], f"{at['prefix']}/{name}", user=user)

    got: dict[str, Any] = {}
    of_turns = TurnwrightChatMessageHistory(at["url"], at["key"], "turns", user="ann")
    got["of turns"] = []
    open_calls: list[str] = []
    for message in of_turns.messages:
        if isinstance(message, ToolMessage):
            is_answer = message.tool_call_id == open_calls.pop(0)
            got["of turns"].append(["tool", message.name, message.status, is_answer])
            continue
        row = told(message)
        if len(row) == 3:
            open_calls = [call[0] for call in row[2]]
            row[2] = [call[1:] for call in row[2]]
        got["of turns"].append(row)

    several = history("several")
    got["empty"] = several.messages
    added = [
        HumanMessage("What 🧺 do I have?"),
        AIMessage(
            "I look.",
            tool_calls=[call("products", "call_1", n=1.5, of=["a"]), call("orders", "call_2")],
        ),
        ToolMessage('{"products": []}', tool_call_id="call_1", name="products"),
        ToolMessage("no such shop", tool_call_id="call_2", name="orders", status="error"),
        AIMessage("Nothing."),
    ]
    several.add_messages(added)
    got["again"] = [told(message) for message in several.messages]

    odd = history("odd")
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": IMAGE}}]
    broken = {"id": "call_3", "name": "orders", "args": '{"n": ', "error": None, "type": "invalid_tool_call"}
    odd.add_messages([HumanMessage(parts), AIMessage("", invalid_tool_calls=[broken])])
    odd.add_messages([ToolMessage("not JSON", tool_call_id="call_3", status="error")])
    image, asks, result = odd.messages
    got["image"] = [image.type, [part["type"] for part in image.content]]
    assert image.content[1]["image_url"]["url"] == IMAGE
    invalid = [[it["id"], it["name"], it["args"]] for it in asks.invalid_tool_calls]
    got["invalid"] = [asks.type, invalid, result.type, result.tool_call_id]

    runs = history("runs")
    asks = AIMessage("", tool_calls=[call("weather", "call_4", city="Rome"), call("fails", "call_5")])
    runs.add_messages([HumanMessage("Well?"), asks])
    got["early"] = refused(lambda: runs.add_messages([HumanMessage("Hello?")]))
    results = run_calls(runs.messages)
    runs.add_messages(results)
    got["run"] = [told(message) for message in runs.messages[2:]]
    got["run"][1][1] = "it rains" in got["run"][1][1]
    got["twice"] = refused(lambda: runs.add_messages(results[:1]))
    runs.add_messages([AIMessage("Sunny.")])
    got["after run"] = [message.type for message in runs.messages]

    try:
        runs.add_messages([SystemMessage("Be kind.")])
    except ValueError:
        got["system"] = True

    many = history("many")
    many.add_messages([HumanMessage(f"m{n}") for n in range(251)])
    read_again = many.messages
    got["many"] = [len(read_again), read_again[0].content, read_again[-1].content]

    many.clear()
    got["cleared"] = [many.messages]
    many.add_messages([HumanMessage("anew")])
    got["cleared"].append([message.type for message in many.messages])

    anns = history("anns", user="ann")
    anns.add_messages([HumanMessage("Mine.")])
    got["of others"] = history("anns", user="bob").messages

    model = ChatOpenAI(base_url=f"{at['url']}/v1", api_key=at["key"], model="m", max_retries=0)
    chain = RunnableWithMessageHistory(model, lambda session_id: history(session_id))
    session = {"configurable": {"session_id": "chain"}}
    chain.invoke([HumanMessage("How much?")], config=session)
    got["told"] = chain.invoke([HumanMessage("Once again")], config=session).content
    got["chain"] = [message.type for message in history("chain").messages]
    return got
