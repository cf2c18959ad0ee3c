"""The same scripts end on a real SQLite file and a real PostgreSQL as they do in memory."""

from __future__ import annotations

from pathlib import Path

from tests.servers import PostgresServer
from tests.simulation.agreement import certain, disagreements
from tests.simulation.postgres import VirtualPostgres, virtual_database
from tests.simulation.prediction import predicted
from tests.simulation.seed import script_of

from redrive.store.sqlite import SqliteDatabase

SCRIPTS = range(20)
SCRIPTS_ON_POSTGRESQL = range(8)


def test_on_a_sqlite_file(tmp_path: Path) -> None:
    paths = (str(tmp_path / f"{number}.db") for number in SCRIPTS)
    make = lambda clock: SqliteDatabase(next(paths), clock=clock, durable=False)  # noqa: E731
    assert not list(disagreements(make, SCRIPTS))


def test_on_postgresql(live_postgres: PostgresServer) -> None:
    with virtual_database(live_postgres) as url:
        make = lambda clock: VirtualPostgres(url, clock)  # noqa: E731
        assert not list(disagreements(make, SCRIPTS_ON_POSTGRESQL))


def test_the_scripts_that_are_compared_have_an_end_that_is_certain() -> None:
    scripts = [certain(script_of(seed)) for seed in SCRIPTS]
    assert all(predicted(script, run) is not None for script in scripts for run in script.runs)
    assert sum(len(script.runs) for script in scripts) > 80
    assert sum(len(script.faults) for script in scripts) > 40
    endings = [predicted(script, run) for script in scripts for run in script.runs]
    assert sum(ending is not None and ending.replays > 0 for ending in endings) > 20
