"""Drives one request with the official client at its default retries, and says how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field

import openai

TURN_HEADER = "turnwright-turn"


@dataclass
class Ended:
    """`answer`, `cut` (the connection broke), `error event`, an HTTP status, or another class."""

    outcome: str
    text: str = ""
    """Why, for people."""
    note: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class Driven:
    """A client whose every answer is seen, those of its own retries included."""

    def __init__(self, base_url: str, key: str, timeout_s: float | None = None) -> None:
        self.turns: list[str] = []
        """Of each request as it was sent: the value of `x-stainless-retry-count`."""
        self.sent: list[str] = []
        http = openai.DefaultHttpxClient(
            event_hooks={"request": [self._sent], "response": [self._headers_came]}
        )
        options = {} if timeout_s is None else {"timeout": timeout_s}
        self.client = openai.OpenAI(base_url=f"{base_url}/v1", api_key=key, http_client=http, **options)

    def _sent(self, request) -> None:
        self.sent.append(request.headers.get("x-stainless-retry-count", ""))

    def _headers_came(self, response) -> None:
        turn = response.headers.get(TURN_HEADER)
        if turn is not None and turn not in self.turns:
            self.turns.append(turn)

    def ask(self, text: str, *, stream: bool, **more) -> Ended:
        text_so_far = ""
        headers: dict[str, str] = {}
        wanted = {"model": "any", "messages": [{"role": "user", "content": text}], **more}
        try:
            raw = self.client.chat.completions.with_raw_response.create(stream=stream, **wanted)
            headers = dict(raw.headers)
            if not stream:
                choice = raw.parse().choices[0]
                return Ended("answer", choice.message.content or "", headers=headers)
            finish = None
            for chunk in raw.parse():
                for choice in chunk.choices:
                    text_so_far += choice.delta.content or ""
                    finish = choice.finish_reason or finish
            if finish is None:
                return Ended("no finish", text_so_far, headers=headers)
            return Ended("answer", text_so_far, headers=headers)
        except openai.APIStatusError as error:
            return Ended(str(error.status_code), note=error.message, headers=dict(error.response.headers))
        except openai.APITimeoutError as error:
            return Ended("timeout", text_so_far, str(error), headers)
        except openai.APIConnectionError as error:
            outcome = "cut" if headers else "no connection"
            return Ended(outcome, text_so_far, repr(error.__cause__), headers)
        except openai.APIError as error:
            return Ended("error event", text_so_far, error.message, headers)

    def close(self) -> None:
        self.client.close()
