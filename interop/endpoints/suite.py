"""What the official clients send and read beside chat.

Each client asks for everything; what it read, what the provider was sent and what was recorded are compared with what
they must be.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import openai
from provider import IMAGE, SOUND, VECTOR, Provider
from server import Server

HERE = Path(__file__).parent
RECORDED_WITHIN_S = 5
POLL_S = 0.01
WANTED = {
    "embeddings": VECTOR,
    "completions": "one two",
    "moderations": True,
    "images": IMAGE,
    "edits": IMAGE,
    "speech": base64.b64encode(SOUND).decode(),
    "transcriptions": "all of it",
    "translations": "all of it",
    "unknown": ["NotFoundError", 404, "model_not_found"],
}
ROWS = [
    # Path, model, outcome, tokens in and out.
    ("/v1/embeddings", "small", "completed", 3, None),
    ("/v1/completions", "m", "completed", 4, 2),
    ("/v1/moderations", "omni-moderation-latest", "completed", None, None),
    ("/v1/images/generations", "m", "completed", 7, 9),
    ("/v1/images/edits", "small", "completed", 7, 9),
    ("/v1/audio/speech", "m", "completed", None, None),
    ("/v1/audio/transcriptions", "small", "completed", None, None),
    ("/v1/audio/translations", "m", "completed", None, None),
]


def python(base_url: str, key: str) -> dict[str, Any]:
    client = openai.OpenAI(base_url=base_url, api_key=key, max_retries=0)
    got: dict[str, Any] = {}
    got["embeddings"] = client.embeddings.create(model="small", input="Hi").data[0].embedding
    events = client.completions.create(model="m", prompt="Hi", stream=True)
    got["completions"] = "".join(event.choices[0].text for event in events if event.choices)
    got["moderations"] = client.moderations.create(input="Hi").results[0].flagged
    images = client.images.generate(model="m", prompt="Hi").data
    got["images"] = images[0].b64_json if images else None
    edited = client.images.edit(model="small", prompt="Hi", image=("a.png", SOUND, "image/png")).data
    got["edits"] = edited[0].b64_json if edited else None
    with client.audio.speech.with_streaming_response.create(model="m", voice="alloy", input="Hi") as speech:
        got["speech"] = base64.b64encode(b"".join(speech.iter_bytes())).decode()
    got["transcriptions"] = client.audio.transcriptions.create(model="small", file=("a.mp3", SOUND)).text
    got["translations"] = client.audio.translations.create(model="m", file=("a.mp3", SOUND)).text
    try:
        client.embeddings.create(model="nobody-has-this", input="Hi")
    except openai.APIStatusError as error:
        got["unknown"] = [type(error).__name__, error.status_code, error.code]
    client.close()
    return got


def node(base_url: str, key: str) -> dict[str, Any]:
    asked = {"base_url": base_url, "key": key, "sound": base64.b64encode(SOUND).decode()}
    ran = subprocess.run(
        ["node", str(HERE / "client.mjs"), json.dumps(asked)], capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr)
    return json.loads(ran.stdout)


def rows(database: Path, count: int) -> list[tuple[Any, ...]]:
    """The records, once there are so many: they are written behind the answers."""
    until = time.monotonic() + RECORDED_WITHIN_S
    while True:
        with closing(sqlite3.connect(database)) as connection:
            found = connection.execute(
                "SELECT path, model, outcome, input_tokens, output_tokens FROM relayed_request ORDER BY key"
            ).fetchall()
        if len(found) >= count or time.monotonic() > until:
            return found
        time.sleep(POLL_S)


def model_of(sent: dict[str, Any]) -> Any:
    model = sent.get("model")
    return model.decode() if isinstance(model, bytes) else model


def check(client: Any) -> list[str]:
    """What is wrong."""
    provider = Provider()
    config = (
        f'[[upstream]]\nname = "all"\nkind = "openai"\nbase_url = "{provider.base_url}"\n'
        'models = ["m", "omni-*"]\naliases = { small = "small-2" }\n'
    )
    wrong = []
    with Server(config) as server:
        got = client(server.base_url, server.key)
        for what, wanted in WANTED.items():
            if got.get(what) != wanted:
                wrong.append(f"{what}: read {str(got.get(what))[:80]}, not {str(wanted)[:80]}")
        asked = [(path, model_of(sent)) for path, sent in provider.asked]
        names = {"small": "small-2", "omni-moderation-latest": None}
        wanted_asked = [(path, names.get(model, model)) for path, model, *_ in ROWS]
        if asked != wanted_asked:
            wrong.append(f"the provider was asked {asked}, not {wanted_asked}")
        recorded = rows(server.database, len(ROWS))
        if recorded != ROWS:
            wrong.append(f"recorded is {recorded}, not {ROWS}")
    provider.close()
    return wrong


def main() -> int:
    began, failed = time.monotonic(), 0
    os.environ.setdefault("NODE_NO_WARNINGS", "1")
    for client in (python, node):
        wrong = check(client)
        failed += bool(wrong)
        print(f"ok      openai, {client.__name__}" if not wrong else f"FAILED  openai, {client.__name__}")
        for line in wrong:
            print(f"    {line}")
    print(f"{2 - failed} passed, {failed} failed in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
