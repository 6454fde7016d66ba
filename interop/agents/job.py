"""One job of a Python client: what it asks, its own tools, and what came of it."""

import asyncio
import json

OWN = "pick_color"
COLOR = "blue"
CANCEL_AGAIN_S = 0.2
DESCRIPTION = "The colour that suits a mood."
PARAMETERS = {
    "type": "object",
    "properties": {"mood": {"type": "string"}},
    "required": ["mood"],
    "additionalProperties": False,
}


class Job:
    """`pick_color` is the client's own tool; any other name is one of the server's."""

    def __init__(self, sent, url, key):
        self.number, self.client = sent["job"], sent["client"]
        self.url, self.key = url, key
        self.model, self.messages = sent["model"], sent["messages"]
        self.tools, self.user = sent["tools"], sent["user"]
        self.streams = "stream" in sent["client"]
        # Whether a client that nobody can interrupt is to leave by itself.
        self.leaves_at_first_text = sent["leaves"]
        self.task = None
        self._first_text = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.outcome = {"answers": [], "ran": [], "seen": [], "error": None}

    def saw(self, text):
        if text:
            self.outcome["seen"].append(text)
            self._loop.call_soon_threadsafe(self._first_text.set)

    def answered(self, answer_id, text, finish, usage, calls):
        self.outcome["answers"].append(
            {"id": answer_id, "text": text, "finish": finish, "usage": usage, "calls": calls}
        )

    def pick_color(self, mood):
        self.outcome["ran"].append(["pick_color", json.dumps({"mood": mood})])
        return COLOR

    def failed(self, error):
        self.outcome["error"] = {
            "class": type(error).__name__,
            "status": getattr(error, "status_code", None),
            "code": getattr(error, "code", None) or _kind(error),
            "message": str(getattr(error, "message", error)),
            "request_id": getattr(error, "request_id", None),
        }

    async def abort(self):
        """Leaves: a stream once it has shown something, by cancelling what waits for it."""
        if self.streams:
            await self._first_text.wait()
        # Until Python 3.12 `wait_for`, which LangChain reads by, may lose a cancellation that comes
        # together with what it waits for.
        while not self.task.done():
            self.task.cancel()
            await asyncio.wait({self.task}, timeout=CANCEL_AGAIN_S)

    def declared(self):
        """The tools as the Chat Completions format has them; `None` for no list at all."""
        if self.tools is None:
            return None
        return [{"type": "function", "function": self._function(name)} for name in self.tools]

    def _function(self, name):
        if name == "pick_color":
            return {"name": name, "description": DESCRIPTION, "parameters": PARAMETERS}
        # The server puts its own description and schema in.
        return {"name": name}


def _kind(error):
    """The type of an error of Messages, which has no code."""
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, dict) else None
    return inner.get("type") if isinstance(inner, dict) else None
