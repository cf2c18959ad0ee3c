"""The command line in this process, in its own directory and without settings from outside."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

import psycopg
import pytest
from tests.cli.served import anywhere, served  # noqa: F401 - fixtures
from tests.cli.shop import shop  # noqa: F401
from tests.cli.strange import strange  # noqa: F401
from tests.servers import PostgresServer

from redrive.cli.program import run


class Ended(NamedTuple):
    code: int
    out: str
    err: str


class Command(Protocol):
    def __call__(self, *arguments: str) -> Ended: ...


@pytest.fixture
def redrive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Return a function that executes a command, such as `redrive("key", "list")`, and returns its result."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for variable in [name for name in os.environ if name.startswith("REDRIVE_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))  # the folder of contexts
    monkeypatch.setenv("REDRIVE_CONFIG", "")  # undo what a command sets here

    def execute(*arguments: str) -> Ended:
        capsys.readouterr()
        code = run(arguments)
        return Ended(code, *capsys.readouterr())

    yield execute
    for name in [name for name in sys.modules if "_of_test" in name]:
        del sys.modules[name]


@pytest.fixture(params=["sqlite", "postgres"])
def office(request: pytest.FixtureRequest, redrive: Command) -> Command:
    """The command line on each of the databases."""
    if request.param == "postgres":
        request.getfixturevalue("on_postgres")
    redrive("migrate")
    return redrive


@pytest.fixture
def on_postgres(
    redrive: Command, live_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Let commands use a separate schema of PostgreSQL."""
    schema = f"test_{uuid.uuid4().hex}"
    monkeypatch.setenv("REDRIVE_DATABASE_URL", live_postgres.url)
    monkeypatch.setenv("REDRIVE_SCHEMA", schema)
    yield
    with psycopg.connect(live_postgres.url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
