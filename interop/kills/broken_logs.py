"""Logs that cannot be written, under load and kills: what reads them ends, or reads no more, or the disk is full.

Every life of a load has a log of the same kind, so turns are taken over and ended with it, too.
"""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import termios
import time
from struct import unpack

from load import Ground, Life, Load, mixed_questions
from server import POLL_S, Server

QUESTIONS = 24
KILLS = 2
KILL_EVERY = 6
DROPPED = "turnwright_log_lines_dropped_total"
TURN_ENDED = b"a turn ended"
READ_BYTES = 65536
# Nothing takes so long.
TOLD_WITHIN_S = 20.0


class Logging(Life):
    """Logs all that there is to tell."""

    def start(self, server: Server) -> None:
        stderr = self.open()
        server.start(variables={"RUST_LOG": "trace"}, stderr=stderr)
        self.break_it(stderr)
        os.close(stderr)

    def open(self) -> int:
        """What standard error is."""
        raise NotImplementedError

    def break_it(self, stderr: int) -> None:
        """Once the server has started."""

    def look(self, server: Server, key: str) -> list[str]:
        """Lines were lost, which is noted behind the back of the turns."""
        until = time.monotonic() + TOLD_WITHIN_S
        while server.metric(key, DROPPED) == 0:
            if time.monotonic() > until:
                return ["every line of the log was written, although it cannot be"]
            time.sleep(POLL_S)
        return []


class Closed(Logging):
    """`turnwright serve 2>&1 | head`: what reads the log ends at the first line after the start."""

    def open(self) -> int:
        self.reads, writes = os.pipe()
        return writes

    def break_it(self, stderr: int) -> None:
        reads_bytes = waiting(self.reads) + 1
        self.reader = subprocess.Popen(["head", "-c", str(reads_bytes)], stdin=self.reads, stdout=subprocess.DEVNULL)
        os.close(self.reads)

    def look(self, server: Server, key: str) -> list[str]:
        self.reader.wait(TOLD_WITHIN_S)
        return super().look(server, key)


class Unread(Logging):
    """A pipe that nobody reads, full from the start on, to its last byte."""

    def open(self) -> int:
        self.reads, writes = os.pipe()
        return writes

    def break_it(self, stderr: int) -> None:
        # The server's own end stays one that waits.
        filling = os.open(f"/proc/self/fd/{stderr}", os.O_WRONLY | os.O_NONBLOCK)
        for size in (4096, 1):
            try:
                while os.write(filling, b"\n" * size):
                    pass
            except BlockingIOError:
                pass
        os.close(filling)

    def look(self, server: Server, key: str) -> list[str]:
        """What waits is told as soon as somebody reads."""
        until = time.monotonic() + TOLD_WITHIN_S
        told = b""
        while TURN_ENDED not in told:
            if not select.select([self.reads], [], [], max(0.0, until - time.monotonic()))[0]:
                return [f"the log ends {told.strip()[-200:]!r}"]
            told += os.read(self.reads, READ_BYTES)
        return []


class Full(Logging):
    """A disk without room."""

    def open(self) -> int:
        return os.open("/dev/full", os.O_WRONLY)


def waiting(pipe: int) -> int:
    """Bytes that are in it."""
    return unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]


class Told(Load):
    def __init__(self, ground: Ground, log: type[Logging]) -> None:
        super().__init__(ground, f"log-{log.__name__.lower()}", mixed_questions(QUESTIONS))
        self.log = log

    def run(self) -> None:
        killed = [self.log(self.has_ended(KILL_EVERY)) for _ in range(KILLS)]
        self.go_through([*killed, self.log()], self.ask)
        self.expect_of_kills()


def loads(ground: Ground) -> list[Load]:
    return [Told(ground, log) for log in (Closed, Unread, Full)]
