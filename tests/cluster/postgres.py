"""A primary and its synchronous standby, which takes over: real servers with their own ports and data."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from tests.servers import (
    HOST,
    _comes_up,
    _free_port,
    _home,
    _initialize,
    _postgres_answers,
    _postgres_installation,
    _postgres_url,
    _reachable,
    _unprivileged_owner,
    children_of,
)

SECONDS = 60.0
SETTINGS = ("fsync=off", "full_page_writes=off", "max_connections=100", "wal_keep_size=256MB")
KEPT_WITH_ITS_DATA = "dynamic_shared_memory_type=mmap"
"""Killed servers would otherwise leave shared memory behind."""


class Node:
    """One server. Its data can be copied from another node."""

    def __init__(self, home: Path, addresses: str = HOST) -> None:
        self.home = home
        self.port = _free_port()
        self._addresses = addresses
        self._owner = _unprivileged_owner(home)
        self._programs = _reachable(_postgres_installation(), home) / "bin"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return _postgres_url(self.port)

    def create(self) -> None:
        _initialize(self._programs, self.home, self._owner)
        with (self.home / "data" / "pg_hba.conf").open("a") as access:
            access.write("host replication all all trust\n")

    def copy(self, primary: Node) -> None:
        """Make it a standby of another node."""
        data = self.home / "data"
        shutil.rmtree(data, ignore_errors=True)
        source = ("-h", HOST, "-p", str(primary.port), "-U", "postgres")
        options = ("-D", str(data), "-c", "fast", "--no-sync")
        command = [str(self._programs / "pg_basebackup"), *source, *options]
        subprocess.run(command, check=True, cwd=self.home, capture_output=True, **self._owner)
        conninfo = f"host={HOST} port={primary.port} user=postgres"
        (data / "postgresql.auto.conf").write_text(f"primary_conninfo = '{conninfo}'\n")
        (data / "standby.signal").touch()

    def start(self) -> None:
        options = [option for setting in (*SETTINGS, KEPT_WITH_ITS_DATA) for option in ("-c", setting)]
        place = ("-h", self._addresses, "-p", str(self.port), "-k", str(self.home))
        command = [str(self._programs / "postgres"), "-D", str(self.home / "data"), *place, *options]
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.home, stdout=log, stderr=log, **self._owner)
        if not _comes_up(self._process, partial(_postgres_answers, self.port)):
            raise RuntimeError(f"the server does not start:\n{(self.home / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """End all its processes at once, like a power failure."""
        if self._process is not None and self._process.poll() is None:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    @property
    def is_frozen(self) -> bool:
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2].startswith("T")

    def ask(self, text: str) -> Any:
        with psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection:
            cursor = connection.execute(text.encode())
            row = cursor.fetchone() if cursor.description else None
            return None if row is None else row[0]

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)  # so that it starts no others
        children = children_of(self._process.pid)
        for pid in (self._process.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


class Pair:
    """Two nodes: a primary and its synchronous standby."""

    def __init__(self, first: Node, second: Node) -> None:
        self.first, self.second = first, second
        self.primary, self.standby = first, second
        first.create()
        first.start()
        self.add_standby()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.first.port},{HOST}:{self.second.port}/postgres"

    def add_standby(self) -> None:
        """Rebuild the standby, and let commits wait for it."""
        self.standby.kill()
        self.primary.ask("ALTER SYSTEM RESET synchronous_standby_names")
        self.primary.ask("SELECT pg_reload_conf()")
        self.standby.copy(self.primary)
        self.standby.start()
        self.primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.ask("SELECT pg_reload_conf()")
        eventually(lambda: self.primary.ask("SELECT sync_state FROM pg_stat_replication") == "sync")

    def promote(self) -> None:
        """Let the standby take over."""
        assert self.standby.ask("SELECT pg_promote(true, 60)")
        self.primary, self.standby = self.standby, self.primary
        assert not self.primary.ask("SELECT pg_is_in_recovery()")

    def close(self) -> None:
        self.first.kill()
        self.second.kill()


@contextlib.contextmanager
def pair() -> Iterator[Pair]:
    with _home() as first, _home() as second:
        nodes = Node(first), Node(second)
        try:
            yield Pair(*nodes)
        finally:
            for node in nodes:
                node.kill()


@contextlib.contextmanager
def single(addresses: str = HOST) -> Iterator[Node]:
    with _home() as home:
        node = Node(home, addresses)
        node.create()
        try:
            node.start()
            yield node
        finally:
            node.kill()


def eventually(holds: Callable[[], object], seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen in time")
        time.sleep(0.05)
