"""A server under test: its folder, its process, its ends."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

BINARY = os.environ["TURNWRIGHT_BIN"]
HOST = "127.0.0.1"
READY_WITHIN_S = 20.0
POLL_S = 0.01
NOT_INHERITED = ("TURNWRIGHT_FAIL_POINT", "TURNWRIGHT_PANIC_POINT", "TURNWRIGHT_DATA", "ENABLE_TOOLS")

# Below the range from which the system takes ports of outgoing connections, so that nobody
# takes a port between the end of a process and the start of the next.
_ports = itertools.count(20000 + os.getpid() * 97 % 9000)
_ports_lock = threading.Lock()


def free_port() -> int:
    """A port on loopback that nobody listens on."""
    with _ports_lock:
        for port in _ports:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((HOST, port))
                except OSError:
                    continue
                return port
    raise RuntimeError("no port is free")


def create_key(data: Path, *options: str) -> str:
    """A key of the database in `data`, which is made if it does not exist."""
    made = subprocess.run(
        [BINARY, "keys", "create", "--data", str(data), *options],
        check=True,
        capture_output=True,
        text=True,
    )
    return made.stdout.strip()


def revoke_key(data: Path, key: str) -> None:
    """Ends a key; a server that has not seen it yet refuses it at once."""
    subprocess.run([BINARY, "keys", "revoke", key, "--data", str(data)], check=True, capture_output=True)


class Record:
    """Where the record of a server is."""

    flags: list[str] = []
    """What the server is told of it."""
    settings = ""
    """What its configuration begins with."""
    taken_over_within_s = 0.0
    """After a kill nobody goes on with a turn before that."""
    retries: int | None = None
    """How often a client tries again; `None` is its default."""

    def rows(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        """Reads it beside the server; a place for a value is `?`."""
        raise NotImplementedError

    def wrong(self) -> list[str]:
        """What is wrong with that of a server that has ended, a line for each."""
        raise NotImplementedError

    def forget(self) -> None:
        """Removes what is not in the server's folder."""


class FileRecord(Record):
    """A database in a data folder."""

    def __init__(self, data: Path) -> None:
        self.file = data / "turnwright.db"

    def rows(self, sql: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        database = sqlite3.connect(f"file:{self.file}?mode=ro", uri=True, timeout=10)
        try:
            return database.execute(sql, values).fetchall()
        finally:
            database.close()

    def wrong(self) -> list[str]:
        wrong = []
        database = sqlite3.connect(self.file)
        try:
            for pragma in ("integrity_check", "foreign_key_check"):
                found = database.execute(f"PRAGMA {pragma}").fetchall()
                if found not in ([("ok",)], []):
                    wrong.append(f"{pragma}: {found[:3]}")
        finally:
            database.close()
        return wrong


class Server:
    """`turnwright serve` on one folder and one port, started as often as wanted."""

    def __init__(self, folder: Path, config: str, port: int | None = None, record: Record | None = None) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.record = record or FileRecord(self.data)
        self.port = port or free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.log = folder / "server.log"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "turnwright.toml").write_text(self.record.settings + config)

    def command(self) -> list[str]:
        return [
            BINARY,
            "serve",
            "--listen",
            f"{HOST}:{self.port}",
            "--data",
            str(self.data),
            "--config",
            str(self.folder / "turnwright.toml"),
            *self.record.flags,
        ]

    def start(
        self,
        fail_point: str | None = None,
        prefix: tuple[str, ...] = (),
        variables: dict[str, str] | None = None,
        stderr: int | None = None,
    ) -> Server:
        """Starts it and waits until `/readyz` is 200.

        `prefix` runs it under another program, `variables` are added to its environment, and
        `stderr` is where its log goes instead of the file.
        """
        env = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
        env |= variables or {}
        if fail_point is not None:
            env["TURNWRIGHT_FAIL_POINT"] = fail_point
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*prefix, *self.command()],
                env=env,
                stdout=subprocess.DEVNULL,
                stderr=log if stderr is None else stderr,
            )
        self.wait_ready()
        return self

    def wait_ready(self) -> None:
        until = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < until:
            assert self.process is not None
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended: {self.log.read_text()[-2000:]}")
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                pass
            time.sleep(POLL_S)
        raise RuntimeError(f"not ready within {READY_WITHIN_S} s: {self.log}")

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """kill -9, if it still runs."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def terminate(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s: float) -> int:
        assert self.process is not None
        return self.process.wait(timeout_s)

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Reads the database beside the server; a place for a value is `?`."""
        return self.record.rows(sql, values)

    def turn(self, key: str, turn: str) -> tuple[int, dict[str, Any]]:
        """`GET /v1/turns/{id}`: the status and the record."""
        return self.call("GET", f"/v1/turns/{turn}", key)

    def metric(self, key: str, name: str) -> int:
        """A counter without labels of `/metrics`, for a key with the scope `admin`."""
        request = urllib.request.Request(f"{self.url}/metrics", headers={"authorization": f"Bearer {key}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith(f"{name} "):
                    return int(line.split()[1])
        raise RuntimeError(f"there is no counter {name}")

    def call(
        self, method: str, path: str, key: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        request = urllib.request.Request(
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "authorization": f"Bearer {key}",
                "content-type": "application/json",
                **(headers or {}),
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"{}")

    def forget(self) -> None:
        """Ends it and removes its folder and its record."""
        self.kill()
        self.record.forget()
        shutil.rmtree(self.folder, ignore_errors=True)
