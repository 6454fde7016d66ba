"""The official clients of the three surfaces, each as a function from a request to an outcome.

An outcome is `{"choices": [{"text", "refusal", "finish", "function", "calls"}], "error", "id"}`,
where a call is `{"id", "name", "arguments"}` and an error `{"class", "status", "message"}`.
Responses and Messages have one choice, which also says the `kinds` of its items or blocks, in
order, the `thought` that is shown in them, and the `usage`: tokens of the input, cached ones
included, and of the output. A response's finish is its status, or the reason for which it is
incomplete.
"""

import inspect
import itertools
import json
import os
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path

import anthropic
import openai
from openai.types.chat import ChatCompletion

CHAT, RESPONSES, MESSAGES = SURFACES = ("chat", "responses", "messages")
PYTHON = f"openai-python {openai.__version__}"
# Long enough that no answer is refused for the time that it may take.
ANSWER_WITHIN_S = 60


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
        if any(tool["type"] == "custom" for tool in request.get("tools", [])):
            return self._chunks(request)
        with self._completions.stream(**_arguments(self._completions.stream, request)) as stream:
            for _ in stream:
                pass
            return stream.get_final_completion()

    def _chunks(self, request):
        """Reads chunk by chunk: the helper knows no custom calls and raises an `AttributeError`."""
        choice = {"index": 0, "finish_reason": None}
        message, calls = {"role": "assistant", "content": ""}, {}
        for chunk in self._create({**request, "stream": True}):
            for said in chunk.model_dump()["choices"]:
                message["content"] += said["delta"].get("content") or ""
                choice["finish_reason"] = said["finish_reason"] or choice["finish_reason"]
                for piece in said["delta"].get("tool_calls") or []:
                    call = calls.setdefault(piece["index"], {"id": piece["id"], "type": "custom"})
                    body = call.setdefault("custom", {"name": "", "input": ""})
                    for key in body:
                        body[key] += piece["custom"].get(key, "")
        head = {"id": chunk.id, "object": "chat.completion", "created": 0, "model": chunk.model}
        message["tool_calls"] = list(calls.values())
        return ChatCompletion.model_validate({**head, "choices": [{**choice, "message": message}]})

    def close(self):
        pass


class PythonResponses:
    """openai-python's Responses at its default retries."""

    name = PYTHON

    def __init__(self, server):
        self._responses = openai.OpenAI(base_url=server.base_url, api_key=server.key).responses

    def read(self, request, streamed):
        try:
            response = self._stream(request) if streamed else self._create(request)
        except Exception as error:  # Whatever it raises is what the suite is about.
            return {"choices": [], "error": _error(error), "id": None}
        return {"choices": [_response(response)], "error": None, "id": response.id}

    def _create(self, request):
        return self._responses.create(**_arguments(self._responses.create, request))

    def _stream(self, request):
        with self._responses.stream(**_arguments(self._responses.stream, request)) as stream:
            last = None
            for event in stream:
                last = event
            # The helper has a final response for one that is complete.
            if last.type == "response.incomplete":
                return last.response
            return stream.get_final_response()

    def close(self):
        pass


class PythonMessages:
    """anthropic-sdk-python at its default retries."""

    name = f"anthropic-python {anthropic.__version__}"

    def __init__(self, server):
        url = server.base_url.removesuffix("/v1")
        self._messages = anthropic.Anthropic(
            base_url=url, api_key=server.key, timeout=ANSWER_WITHIN_S
        ).messages

    def read(self, request, streamed):
        try:
            message, written = self._stream(request) if streamed else self._create(request)
        except Exception as error:  # Whatever it raises is what the suite is about.
            return {"choices": [], "error": _error(error), "id": None}
        return {"choices": [_message(message, written)], "error": None, "id": message.id}

    def _create(self, request):
        return self._messages.create(**_arguments(self._messages.create, request)), None

    def _stream(self, request):
        written = {}
        with self._messages.stream(**_arguments(self._messages.stream, request)) as stream:
            for event in stream:
                if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                    so_far = written.get(event.index, "")
                    written[event.index] = so_far + event.delta.partial_json
            return stream.get_final_message(), written

    def close(self):
        pass


PYTHON_CLIENTS = {CHAT: PythonClient, RESPONSES: PythonResponses, MESSAGES: PythonMessages}


class NodeClient:
    """The Node client of a surface at its default retries, in one process for all requests."""

    def __init__(self, server, surface=CHAT):
        script = Path(__file__).parent.parent / "node" / "read.mjs"
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._outcomes = {}
        self._process = subprocess.Popen(
            ["node", str(script), surface, server.base_url],
            env={**os.environ, "OPENAI_API_KEY": server.key, "ANTHROPIC_API_KEY": server.key},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.name = json.loads(self._process.stdout.readline())["name"]
        threading.Thread(target=self._take, daemon=True).start()

    def read(self, request, streamed):
        outcome = Future()
        with self._lock:
            job = next(self._numbers)
            self._outcomes[job] = outcome
            line = {"job": job, "request": request, "streamed": streamed}
            self._process.stdin.write(json.dumps(line) + "\n")
            self._process.stdin.flush()
        return outcome.result()

    def _take(self):
        for line in self._process.stdout:
            done = json.loads(line)
            self._outcomes.pop(done["job"]).set_result(done["outcome"])
        ended = RuntimeError(f"node ended with {self._process.wait()}")
        for outcome in self._outcomes.values():
            outcome.set_exception(ended)

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


def _response(response):
    texts, refusals, calls, thoughts = [], [], [], []
    for item in response.output:
        if item.type == "message":
            texts += [part.text for part in item.content if part.type == "output_text"]
            refusals += [part.refusal for part in item.content if part.type == "refusal"]
        elif item.type == "reasoning":
            thoughts += [part.text for part in [*item.summary, *(item.content or [])]]
        elif item.type == "function_call":
            calls.append({"id": item.call_id, "name": item.name, "arguments": item.arguments})
        elif item.type == "custom_tool_call":
            calls.append({"id": item.call_id, "name": item.name, "arguments": item.input})
    cut, used = response.incomplete_details, response.usage
    return {
        "text": "".join(texts),
        "refusal": "".join(refusals) or None,
        "finish": cut.reason if cut else response.status,
        "function": None,
        "calls": calls,
        "kinds": [item.type for item in response.output],
        "thought": "".join(thoughts),
        "usage": used and [used.input_tokens, used.output_tokens],
    }


def _message(message, written):
    """`written` has the inputs of calls as they came in a stream, by their block."""
    calls, thoughts = [], []
    for at, block in enumerate(message.content):
        if block.type == "tool_use":
            text = json.dumps(block.input) if written is None else written.get(at, "")
            made = {"id": block.id, "name": block.name, "arguments": text, "input": block.input}
            calls.append(made)
        elif block.type == "thinking":
            thoughts.append(block.thinking)
    used = message.usage
    return {
        "text": "".join(block.text for block in message.content if block.type == "text"),
        "refusal": None,
        "finish": message.stop_reason,
        "function": None,
        "calls": calls,
        "kinds": [block.type for block in message.content],
        "thought": "".join(thoughts),
        "usage": [
            used.input_tokens
            + (used.cache_creation_input_tokens or 0)
            + (used.cache_read_input_tokens or 0),
            used.output_tokens,
        ],
    }
