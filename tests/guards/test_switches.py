"""The table of guards is up to date: every guard can be switched off, and its catchers exist.

`python -m tests.guards` switches off all guards and runs their catchers; this file does so for a few of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cases import loop_over
from tests.guards.catchers import ROOT, caught
from tests.guards.guard import Guard
from tests.guards.page import PAGE, page
from tests.guards.patch import Code, GuardMovedError, Patch, Sql
from tests.guards.switch import switched_off
from tests.guards.table import GUARDS
from tests.servers import POSTGRES_URL, PostgresServer

from redrive.store.postgres import PostgresDatabase
from redrive.store.sqlite import SqliteDatabase
from redrive.store.statement import Statement, statement

QUICK = [
    "complete.token",
    "stop.place",
    "renew.token",
    "get.org",
    "enqueue.same request",
    "private file",
    "unknown record",
    "one record a run and batch",
    "lease renewer.expired",
    "attempt budget",
    "codec.numbers",
    "restart.state",
    "mark_replaying.all",
    "dead_letters.get.org",
    "redrive limit",
    "encrypted.edited payload",
    "page.token",
    "complete_if_held.token",
    "row-level security.runs",
]


@loop_over("guard", GUARDS.values())
def test_it_can_be_switched_off_and_on_again(guard: Guard) -> None:
    before = [_state(patch) for patch in guard.patches]
    with switched_off(guard.name):
        during = [_state(patch) for patch in guard.patches]

    assert all(off != on for off, on in zip(during, before, strict=True) if on is not None)
    assert [_state(patch) for patch in guard.patches] == before


def _state(patch: object) -> object:
    """Return the objects that the patch changes."""
    if isinstance(patch, Sql):
        return [getattr(_statement(patch), side).text for side in patch.sides]
    return patch._function().__code__ if isinstance(patch, Code) else None


def _statement(patch: Sql) -> Statement:
    return statement(*patch.name.split("."))


def test_a_guard_whose_code_has_moved_is_reported() -> None:
    moved: list[Patch] = [
        Sql("records.complete", "no such condition"),
        Sql("records.no_such_statement", "token"),
        Sql("leases.claim", "SKIP LOCKED"),
        Code("redrive.engine.work:Work.interrupt", "no such line", ""),
        Code("redrive.engine.work:Work.no_such_function", "", ""),
    ]
    for patch in moved:
        with pytest.raises(GuardMovedError), patch.applied():
            pass


def test_an_unknown_guard_is_refused() -> None:
    with pytest.raises(LookupError, match=r"complete\.token"), switched_off("complete"):
        pass


def test_every_guard_has_a_catcher_or_is_doubled() -> None:
    assert [guard.name for guard in GUARDS.values() if bool(guard.catchers) == bool(guard.doubled_by)] == []


def test_every_catcher_exists() -> None:
    wanted = {tuple(test.partition("[")[0].split("::")) for test in _catchers()}
    known = {file: set(_tests(ROOT / file)) for file in {test[0] for test in wanted}}

    assert [test for test in sorted(wanted) if test[1:] not in known[test[0]]] == []


def _catchers() -> set[str]:
    return {test for guard in GUARDS.values() for test in guard.catchers}


def _tests(file: Path) -> Iterator[tuple[str, ...]]:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.name,)
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield node.name, each.name


def test_the_page_names_every_guard() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(GUARDS.values()), "run python -m tests.guards --write"


# A statement must stay valid SQL without its guard: otherwise any test would notice.


def _statements_without() -> list[tuple[str, Sql]]:
    return [
        (guard.name, each) for guard in GUARDS.values() for each in guard.patches if isinstance(each, Sql)
    ]


def test_sqlite_accepts_the_statements_without_their_guards() -> None:
    database = SqliteDatabase(":memory:")
    database._all_or_nothing(database._migrate)
    connection = database._open()
    for name, patch in _statements_without():
        if "sqlite" in patch.sides and name != "one live dead letter":
            with switched_off(name):
                connection.execute(f"EXPLAIN {_statement(patch).sqlite.text}", _Anything())


class _Anything(dict[str, None]):
    """A value for every parameter."""

    def __missing__(self, name: str) -> None:
        return None


async def test_postgresql_accepts_the_statements_without_their_guards(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    connection = await postgres_database._connections.single()
    for name, patch in _statements_without():
        if "postgres" in patch.sides and name != "one live dead letter":
            with switched_off(name):
                await connection.prepare(postgres_database._qualified(_statement(patch).postgres.text))
    await connection.close()


@pytest.mark.parametrize("name", QUICK)
def test_its_absence_is_noticed(name: str, live_postgres: PostgresServer) -> None:
    catch = caught(GUARDS[name], {POSTGRES_URL: live_postgres.url})

    assert catch.problem == ""
