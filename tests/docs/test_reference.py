"""Pages and drawings that follow from the code are what the code says now."""

import asyncio
from pathlib import Path

import apsw
import psycopg
from docs.reference.generate.__main__ import DOCS, PAGES
from docs.reference.generate.tables import postgres_tables, sqlite_tables, tables
from tests.cases import loop_over
from tests.servers import PostgresServer

from redrive import Redrive
from redrive.settings import Settings


@loop_over("name", sorted(PAGES))
def test_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), f"{name} is out of date: run make docs"


def test_every_page_of_the_reference_is_known() -> None:
    written = {f"reference/{page.name}" for page in (DOCS / "reference").glob("*.md")}
    assert written - {"reference/index.md"} == {name for name in PAGES if name.startswith("reference/")}


def test_every_table_is_told_of() -> None:
    told = (DOCS / "internals" / "storage.md").read_text()
    assert [name for name in tables() if f"`{name}`" not in told] == []


async def test_the_tables_are_those_of_a_real_sqlite_database(tmp_path: Path) -> None:
    async with Redrive(f"sqlite:///{tmp_path}/redrive.db", log=False) as app:
        await app.open()
    connection = apsw.Connection(f"{tmp_path}/redrive.db")
    found = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    names = {name for (name,) in connection.execute(found)} - {"migrations"}
    assert sqlite_tables() == {
        name: [row[1] for row in connection.pragma("table_xinfo", name)] for name in names
    }


def test_the_tables_are_those_of_a_real_postgresql_database(live_postgres: PostgresServer) -> None:
    found = columns_on_postgresql(live_postgres)
    view = found.pop("runs")
    assert postgres_tables() == found
    assert view == [column for column in sqlite_tables()["runs"] if column not in ("owner", "order_key")]


def columns_on_postgresql(server: PostgresServer) -> dict[str, list[str]]:
    schema = "test_reference"
    with psycopg.connect(server.url, autocommit=True) as connection:
        asyncio.run(migrated(server.url, schema))
        text = """SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = %s
            AND table_name <> 'migrations' ORDER BY table_name, ordinal_position"""
        found: dict[str, list[str]] = {}
        for table, column in connection.execute(text, [schema]):
            found.setdefault(table, []).append(column)
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())
    return found


async def migrated(url: str, schema: str) -> None:
    async with Redrive(url, settings=Settings(schema=schema), log=False) as app:
        await app.open()
