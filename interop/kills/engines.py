"""What the suite runs over, SQLite and PostgreSQL: what differs between them, and nothing of what is checked.

An engine makes templates, in which there is a key, and copies of them, which are the records of servers. PostgreSQL is a
cluster of the suite's own, so that it can be stopped as by a power cut while others use the machine's.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from server import HOST, FileRecord, Record, create_key, free_port

try:
    import psycopg
except ImportError:
    psycopg = None

LEASE_S = 2
"""A server that was killed is dead for the next one only when its lease ends."""
CONNECTIONS_MAX = 400
STARTS_WITHIN_S = 60
PROGRAMS = Path("/usr/lib/postgresql")
USER = "postgres"


@dataclass
class Template:
    key: str
    copy: Callable[[Path], Record]
    """The record of a server whose folder this is; for each folder one."""


class Sqlite:
    name = "sqlite"
    workers = 4
    whole_s_max = 360.0

    def __init__(self, root: Path) -> None:
        self.root = root

    def template(self, name: str, *options: str) -> Template:
        data = self.root / name
        key = create_key(data, *options)

        def copy(folder: Path) -> Record:
            shutil.copytree(data, folder / "data")
            return FileRecord(folder / "data")

        return Template(key, copy)

    def close(self) -> None:
        """There is nothing beside the files."""


class Postgres:
    name = "postgres"
    # They wait for leases most of the time.
    workers = 6
    whole_s_max = 1200.0

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cluster = Cluster(root)
        self._made = itertools.count(1)
        self._copying = threading.Lock()

    def template(self, name: str, *options: str) -> Template:
        database = self._new("TEMPLATE template1")
        key = create_key(self.root / name, "--store", self.cluster.url(database), *options)

        def copy(_folder: Path) -> Record:
            return DatabaseRecord(self.cluster, self._new(f"TEMPLATE {database}"))

        return Template(key, copy)

    def _new(self, template: str) -> str:
        database = f"kills_{next(self._made)}"
        # A template must not be in use, also by a copy that is being made.
        with self._copying:
            self.cluster.run(f"CREATE DATABASE {database} {template}")
        return database

    def close(self) -> None:
        self.cluster.end()


ENGINES: dict[str, type[Sqlite] | type[Postgres]] = {engine.name: engine for engine in (Sqlite, Postgres)}
Engine = Sqlite | Postgres


def missing(name: str) -> str | None:
    """Why an engine cannot be run over here."""
    if name != Postgres.name:
        return None
    if psycopg is None:
        return "psycopg is not installed"
    return None if programs() else f"no PostgreSQL in {PROGRAMS}"


def programs() -> Path | None:
    """The folder of the newest PostgreSQL's own programs."""
    found = [bin_ for bin_ in PROGRAMS.glob("*/bin") if (bin_ / "initdb").exists()]
    return max(found, key=lambda bin_: float(bin_.parent.name), default=None)


class Cluster:
    """A PostgreSQL that runs until its end, or is stopped and started."""

    def __init__(self, root: Path) -> None:
        self.programs = programs()
        self.data = root / "postgres"
        self.port = free_port()
        self.data.mkdir()
        if os.getuid() == 0:
            # It refuses to be root.
            root.chmod(0o711)
            root.parent.chmod(root.parent.stat().st_mode | 0o11)
            shutil.chown(self.data, USER, USER)
        self._program("initdb", "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        settings = {
            "port": self.port,
            "listen_addresses": f"'{HOST}'",
            "unix_socket_directories": f"'{self.data}'",
            "max_connections": CONNECTIONS_MAX,
            # Else it syncs each file of the cluster by itself as it recovers, for seconds.
            "recovery_init_sync_method": "syncfs",
        }
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        self.start()

    def url(self, database: str) -> str:
        return f"postgres://{USER}@{HOST}:{self.port}/{database}"

    def start(self) -> None:
        """Recovers, and takes connections when this returns."""
        log = str(self.data / "log")
        self._program("pg_ctl", "-w", "-t", str(STARTS_WITHIN_S), "-l", log, "start")

    def stop_at_once(self) -> None:
        """As a power cut would: what runs is lost, and what was not synced."""
        self._program("pg_ctl", "-m", "immediate", "stop")

    def kill_connections(self, database: str) -> int:
        """Ends all connections to a database; how many there were."""
        kill = (
            "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE datname = '{database}' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return len(self.run(kill))

    def run(self, sql: str, database: str = USER, values: tuple[object, ...] = ()) -> list[tuple]:
        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else []

    def end(self) -> None:
        if (self.data / "postmaster.pid").exists():
            self.stop_at_once()
        shutil.rmtree(self.data, ignore_errors=True)

    def _program(self, name: str, *options: str) -> None:
        as_user = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups"] if os.getuid() == 0 else []
        command = [*as_user, str(self.programs / name), "-D", str(self.data), *options]
        # What it starts keeps what it writes to, so that nobody may wait for its end.
        with (self.data.parent / f"{self.data.name}.{name}").open("w+") as said:
            done = subprocess.run(command, cwd="/", stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False)
            if done.returncode != 0:
                said.seek(0)
                raise RuntimeError(f"{name} {' '.join(options)}: {said.read()[-2000:]}")


class DatabaseRecord(Record):
    """A database of its own in a cluster."""

    settings = f"[server]\nlease_s = {LEASE_S}\n"
    # The lease, a look, and a busy machine.
    taken_over_within_s = LEASE_S + 3.0
    # A try may wait for the lease's end, only to be told that a stream cannot be continued.
    retries = 4

    def __init__(self, cluster: Cluster, database: str) -> None:
        self.cluster = cluster
        self.database = database
        self.flags = ["--store", cluster.url(database)]

    def rows(self, sql: str, values: tuple[object, ...]) -> list[tuple]:
        return self.cluster.run(sql.replace("?", "%s"), self.database, values)

    def wrong(self) -> list[str]:
        """Whoever lost a reference would have been refused."""
        return []

    def forget(self) -> None:
        self.cluster.run(f"DROP DATABASE {self.database} WITH (FORCE)")
