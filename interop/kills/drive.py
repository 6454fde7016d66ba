"""Drives one request with the official client at its default retries, and says how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

import openai

TURN_HEADER = "turnwright-turn"
TIMEOUTS = ("connect", "read", "write", "pool")


@dataclass
class Ended:
    """`answer`, `cut` (the connection broke), `error event`, an HTTP status, or another class."""

    outcome: str
    text: str = ""
    """Why, for people."""
    note: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    finish: str | None = None
    """Of each call that came whole or in part: its id, name and arguments so far."""
    calls: list[dict[str, str]] = field(default_factory=list)


class Driven:
    """A client whose every answer is seen, those of its own retries included."""

    def __init__(
        self,
        base_url: str,
        key: str,
        timeout_s: float | None = None,
        *,
        retries: int | None = None,
        first_timeout_s: float | None = None,
    ) -> None:
        """`first_timeout_s` is the time-out of each request's first try alone."""
        self.turns: list[str] = []
        """Of each request as it was sent: the value of `x-stainless-retry-count`."""
        self.sent: list[str] = []
        http = openai.DefaultHttpxClient(
            # Nothing here is TLS, and reading the authorities is most of what a client costs.
            verify=False,
            event_hooks={"request": [self._sent], "response": [self._headers_came]},
        )
        self.first_timeout_s = first_timeout_s
        options = {"timeout": timeout_s, "max_retries": retries}
        options = {name: value for name, value in options.items() if value is not None}
        self.client = openai.OpenAI(base_url=f"{base_url}/v1", api_key=key, http_client=http, **options)

    def _sent(self, request) -> None:
        tries_before = request.headers.get("x-stainless-retry-count", "")
        self.sent.append(tries_before)
        if self.first_timeout_s is not None and tries_before == "0":
            request.extensions["timeout"] = dict.fromkeys(TIMEOUTS, self.first_timeout_s)

    def _headers_came(self, response) -> None:
        turn = response.headers.get(TURN_HEADER)
        if turn is not None and turn not in self.turns:
            self.turns.append(turn)

    def ask(self, text: str, *, stream: bool, **more) -> Ended:
        text_so_far = ""
        headers: dict[str, str] = {}
        calls: list[dict[str, str]] = []
        wanted = {"model": "any", "messages": [{"role": "user", "content": text}], **more}
        try:
            raw = self.client.chat.completions.with_raw_response.create(stream=stream, **wanted)
            headers = dict(raw.headers)
            if not stream:
                choice = raw.parse().choices[0]
                for made in choice.message.tool_calls or []:
                    of_call = made.function
                    calls.append({"id": made.id, "name": of_call.name, "arguments": of_call.arguments})
                text = choice.message.content or ""
                return Ended("answer", text, headers=headers, finish=choice.finish_reason, calls=calls)
            finish = None
            for chunk in raw.parse():
                for choice in chunk.choices:
                    text_so_far += choice.delta.content or ""
                    finish = choice.finish_reason or finish
                    for piece in choice.delta.tool_calls or []:
                        put_together(calls, piece)
            outcome = "no finish" if finish is None else "answer"
            return Ended(outcome, text_so_far, headers=headers, finish=finish, calls=calls)
        except openai.APIStatusError as error:
            return Ended(str(error.status_code), note=error.message, headers=dict(error.response.headers))
        except openai.APITimeoutError as error:
            return Ended("timeout", text_so_far, str(error), headers, calls=calls)
        except openai.APIConnectionError as error:
            outcome = "cut" if headers else "no connection"
            return Ended(outcome, text_so_far, repr(error.__cause__), headers, calls=calls)
        except openai.APIError as error:
            return Ended("error event", text_so_far, error.message, headers, calls=calls)

    def close(self) -> None:
        self.client.close()


def put_together(calls: list[dict[str, str]], piece) -> None:
    """Adds a piece of a call to those before it."""
    while len(calls) <= piece.index:
        calls.append({"id": "", "name": "", "arguments": ""})
    call = calls[piece.index]
    call["id"] += piece.id or ""
    if piece.function is not None:
        call["name"] += piece.function.name or ""
        call["arguments"] += piece.function.arguments or ""
