"""The real server, with a configuration and a key of its own."""

import json
import os
import subprocess
import tempfile
import threading
import urllib.request
from pathlib import Path

STOP_S = 20
LOG_LINES_SHOWN = 30


class Server:
    """`turnwright serve` in a temporary folder, until the `with` block ends."""

    def __init__(self, config, tools=None):
        self._folder = tempfile.TemporaryDirectory(prefix="turnwright-interop-")
        folder = Path(self._folder.name)
        self._data, self._log = folder / "data", folder / "log"
        self.database = self._data / "turnwright.db"
        file = folder / "turnwright.toml"
        file.write_text(config)
        program = os.environ["TURNWRIGHT_BIN"]
        key = [program, "keys", "create", "--data", str(self._data)]
        made = subprocess.run(
            key + (["--tools", tools] if tools else []),
            check=True,
            capture_output=True,
            text=True,
        )
        self.key = made.stdout.strip()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program, "serve", "--listen", "127.0.0.1:0", "--data", str(self._data)]
                + ["--config", str(file)],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "RUST_LOG": os.environ.get("RUST_LOG", "warn")},
            )
        line = self._process.stdout.readline()
        if "listening on " not in line:
            self._stop()
            raise RuntimeError(f"the server did not start:\n{self.log_tail()}")
        self.url = line.split("listening on ")[1].strip()
        self.base_url = f"{self.url}/v1"
        # Nothing more is expected there, but a full pipe would stop the server.
        threading.Thread(target=self._process.stdout.read, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        died = self._process.poll()
        self._stop()
        if failed or died is not None:
            print(f"the server's log ends with:\n{self.log_tail()}")
        self._folder.cleanup()
        if died is not None and not failed:
            raise RuntimeError(f"the server ended with {died}")

    def _stop(self):
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def log_tail(self):
        lines = self._log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES_SHOWN:])

    def post(self, request):
        """Sends a chat request and gives the answer's bytes, as no client library shows them."""
        sent = urllib.request.Request(
            f"{self.base_url}/chat/completions",
            data=json.dumps(request).encode(),
            headers={"authorization": f"Bearer {self.key}", "content-type": "application/json"},
        )
        with urllib.request.urlopen(sent) as answer:
            return answer.read()

    def turn(self, turn_id):
        """A turn's record."""
        asked = urllib.request.Request(
            f"{self.base_url}/turns/{turn_id}",
            headers={"authorization": f"Bearer {self.key}"},
        )
        with urllib.request.urlopen(asked) as answer:
            return json.load(answer)


def config_with(upstream_url, probes=()):
    """A configuration with one upstream and tools that post to a listener: (name, url) each."""
    lines = [
        "[limits]",
        "model_backoff_ms = 1",
        "[[upstream]]",
        'name = "recorded"',
        'kind = "openai"',
        f"base_url = {json.dumps(upstream_url)}",
    ]
    for name, url in probes:
        lines += [
            "[[probe]]",
            f"name = {json.dumps(name)}",
            'effect = "read"',
            f"url = {json.dumps(url)}",
            """parameters = '{"type":"object"}'""",
        ]
    return "\n".join(lines) + "\n"
