"""A model provider that plays a case's rounds, streamed or plain as it is asked.

A round is a dictionary:
  {"text", "calls": [(id, name, arguments)], "usage": (prompt, completion)}   an answer
  {"status", "error"}                                                        an error
  {"text", "then": "wait"}    the text's beginning, then nothing until the other side leaves
  {"text", "then": "cut"}     the text's beginning, then the connection's end
"""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LEAVES_WITHIN_S = 30


class Model:
    """Plays `rounds(model)`, the n-th request for a model getting the n-th round."""

    def __init__(self, rounds):
        self._rounds = rounds
        self._lock = threading.Lock()
        self._events = {}
        self.asked = {}
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.base_url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def event(self, model, name):
        """`waits`: the answer has come to where it waits. `left`: the other side is gone."""
        with self._lock:
            return self._events.setdefault((model, name), threading.Event())

    def answer_to(self, request):
        with self._lock:
            asked = self.asked.setdefault(request["model"], [])
            asked.append(request)
            rounds = self._rounds(request["model"])
            if len(asked) > len(rounds):
                return {"status": 400, "error": {"message": f"request {len(asked)} of a case"}}
            return rounds[len(asked) - 1]

    def close(self):
        self._http.shutdown()
        self._http.server_close()


def completion(model, answer):
    """A plain body."""
    message = {"role": "assistant", "content": answer.get("text")}
    if answer.get("calls"):
        message["tool_calls"] = [_call(call) for call in answer["calls"]]
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
    head = {"id": "of-the-model", "object": "chat.completion", "created": 1, "model": model}
    return {**head, "choices": [choice], "usage": _usage(answer)}


def chunks(model, answer, with_usage):
    """A stream's events: the text by words, each call's head and its arguments in halves."""
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in _words(answer.get("text") or "")]
    for at, call in enumerate(answer.get("calls", [])):
        whole, half = _call(call), len(call[2]) // 2
        whole["function"]["arguments"] = ""
        deltas.append({"tool_calls": [{"index": at, **whole}]})
        for piece in (call[2][:half], call[2][half:]):
            deltas.append({"tool_calls": [{"index": at, "function": {"arguments": piece}}]})
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": _finish(answer)})
    head = {"id": "of-the-model", "object": "chat.completion.chunk", "created": 1, "model": model}
    events = [{**head, "choices": [choice]} for choice in choices]
    if with_usage:
        events.append({**head, "choices": [], "usage": _usage(answer)})
    return events


def _words(text):
    words = text.split(" ")
    return [word + " " for word in words[:-1]] + words[-1:]


def _call(call):
    call_id, name, arguments = call
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _finish(answer):
    return "tool_calls" if answer.get("calls") else "stop"


def _usage(answer):
    prompt, said = answer["usage"]
    return {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said}


def _handler(model):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):  # noqa: N802 (the base class asks for this name)
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = model.answer_to(request)
            try:
                self._answer(request, answer)
            except OSError:
                self.close_connection = True

        def _answer(self, request, answer):
            if "status" in answer:
                self._whole(answer["status"], {"error": answer["error"]})
            elif request.get("stream"):
                self._stream(request, answer)
            elif "then" in answer:
                self._stop(request, answer)
            else:
                self._whole(200, completion(request["model"], answer))

        def _whole(self, status, body):
            sent = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def _stream(self, request, answer):
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            stops = "then" in answer
            with_usage = request.get("stream_options", {}).get("include_usage") and not stops
            events = chunks(request["model"], {"usage": None, **answer}, with_usage)
            for event in events[:-1] if stops else events:
                self._event(json.dumps(event))
            if stops:
                self._stop(request, answer)
            else:
                self._event("[DONE]")
                self.wfile.write(b"0\r\n\r\n")

        def _event(self, payload):
            sent = f"data: {payload}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(sent), sent))

        def _stop(self, request, answer):
            self.close_connection = True
            if answer["then"] == "cut":
                return
            model.event(request["model"], "waits").set()
            self.connection.settimeout(LEAVES_WITHIN_S)
            try:
                gone = self.connection.recv(1, socket.MSG_PEEK) == b""
            except TimeoutError:
                gone = False
            except ConnectionError:
                gone = True
            if gone:
                model.event(request["model"], "left").set()

        def log_message(self, *_):
            pass

    return Handler
