"""The two official clients, each as a function from a request to an outcome.

An outcome is `{"choices": [{"text", "refusal", "finish", "function", "calls"}], "error", "id"}`,
where a call is `{"id", "name", "arguments"}` and an error `{"class", "status", "message"}`.
"""

import inspect
import json
import os
import subprocess
import threading
from pathlib import Path

import openai

PYTHON = f"openai-python {openai.__version__}"


class PythonClient:
    """openai-python at its default retries."""

    name = PYTHON

    def __init__(self, server):
        self._completions = openai.OpenAI(
            base_url=server.base_url, api_key=server.key
        ).chat.completions

    def read(self, request, streamed):
        try:
            completion = self._stream(request) if streamed else self._create(request)
        except openai.LengthFinishReasonError as error:
            return _outcome(error.completion, _error(error))
        except Exception as error:  # Whatever it raises is what the suite is about.
            return _outcome(None, _error(error))
        return _outcome(completion, None)

    def _create(self, request):
        return self._completions.create(**_arguments(self._completions.create, request))

    def _stream(self, request):
        with self._completions.stream(**_arguments(self._completions.stream, request)) as stream:
            for _ in stream:
                pass
            return stream.get_final_completion()

    def close(self):
        pass


class NodeClient:
    """openai-node at its default retries, in one process that is given a request at a time."""

    def __init__(self, server):
        script = Path(__file__).parent.parent / "node" / "read.mjs"
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            ["node", str(script), server.base_url],
            env={**os.environ, "OPENAI_API_KEY": server.key},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.name = f"openai-node {json.loads(self._process.stdout.readline())['version']}"

    def read(self, request, streamed):
        with self._lock:
            self._process.stdin.write(json.dumps({"request": request, "streamed": streamed}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"node ended with {self._process.wait()}")
        return json.loads(line)

    def close(self):
        self._process.stdin.close()
        self._process.wait()


def _arguments(method, request):
    """The request as keyword arguments; fields that the method does not name go beside them."""
    known = inspect.signature(method).parameters
    named = {key: value for key, value in request.items() if key in known}
    others = {key: value for key, value in request.items() if key not in known}
    return {**named, "extra_body": others}


def _error(error):
    return {
        "class": type(error).__name__,
        "status": getattr(error, "status_code", None),
        "message": str(error),
    }


def _outcome(completion, error):
    choices = [_choice(choice) for choice in completion.choices] if completion else []
    return {"choices": choices, "error": error, "id": completion.id if completion else None}


def _choice(choice):
    message = choice.message
    function = message.function_call
    return {
        "text": message.content or "",
        "refusal": message.refusal,
        "finish": choice.finish_reason,
        "function": function and {"name": function.name, "arguments": function.arguments},
        "calls": [_call(call) for call in message.tool_calls or []],
    }


def _call(call):
    if call.type == "custom":
        return {"id": call.id, "name": call.custom.name, "arguments": call.custom.input}
    return {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
