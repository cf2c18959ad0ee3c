"""Pages and drawings that follow from the code are what the code says now."""

from pathlib import Path

import apsw
from docs.reference.generate.__main__ import DOCS, PAGES
from docs.reference.generate.tables import tables
from tests.cases import loop_over

from redrive import Redrive


@loop_over("name", sorted(PAGES))
def test_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), f"{name} is out of date: run make docs"


def test_every_page_of_the_reference_is_known() -> None:
    written = {f"reference/{page.name}" for page in (DOCS / "reference").glob("*.md")}
    assert written - {"reference/index.md"} == {name for name in PAGES if name.startswith("reference/")}


def test_every_table_is_told_of() -> None:
    told = (DOCS / "internals" / "storage.md").read_text()
    assert [name for name in tables() if f"`{name}`" not in told] == []


async def test_the_tables_are_those_of_a_real_database(tmp_path: Path) -> None:
    async with Redrive(f"sqlite:///{tmp_path}/redrive.db", log=False) as app:
        await app.open()
    connection = apsw.Connection(f"{tmp_path}/redrive.db")
    found = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    names = {name for (name,) in connection.execute(found)} - {"migrations"}
    columns = {name: {row[1] for row in connection.pragma("table_info", name)} for name in names}
    assert {name: set(known) for name, known in tables().items()} == columns
