"""The doctor's findings about a SQLite file, which it leaves unchanged."""

from __future__ import annotations

import shlex
from pathlib import Path

import apsw
import pytest
from tests.doctor.conftest import made
from tests.doctor.diagnosis import is_complete, only

from redrive.app import Redrive
from redrive.doctor import DoctorLimits, State, examine
from redrive.doctor.finding import DEFAULT_LIMITS
from redrive.doctor.sqlite import Disk, disk_of, judge_disk
from redrive.errors import NotFoundError, StoreError
from redrive.parts import parts_of
from redrive.testing import in_memory


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "redrive.db"


async def migrated(path: Path) -> Redrive:
    async with made(f"sqlite:///{path}") as app:
        return app


async def test_a_file_that_is_not_there_is_not_made(path: Path) -> None:
    with pytest.raises(
        NotFoundError, match=r"there is no database .*redrive\.db; .*`redrive migrate` creates a database"
    ):
        await examine(parts_of(made(f"sqlite:///{path}")).database)
    assert not path.exists()


async def test_a_file_without_tables_stays_so(path: Path) -> None:
    path.touch(0o600)
    found = only(await examine(parts_of(made(f"sqlite:///{path}")).database), "schema")
    assert (found.state, found.command) == (State.BAD, "redrive migrate")
    assert path.read_bytes() == b""


async def test_a_file_that_is_no_database(path: Path) -> None:
    path.write_text("no database at all, but long enough to be taken for the head of one" * 20)
    with pytest.raises(StoreError, match="not a database"):
        await examine(parts_of(made(f"sqlite:///{path}")).database)


async def test_nothing_in_the_file_changes(path: Path) -> None:
    app = await migrated(path)
    before = path.read_bytes()
    report = await examine(parts_of(app).database, keys=())
    assert {each.state for each in report.findings} == {State.NOTE, State.OK}, str(report)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["redrive.db"]


async def test_an_application_that_does_not_wait_for_the_disk(path: Path) -> None:
    """I1."""
    await migrated(path)
    app = Redrive(f"sqlite:///{path}", log=False, durable=False)
    found = only(await examine(parts_of(app).database), "durability")
    assert (found.state, found.seen) == (State.BAD, "journal_mode is wal, synchronous is off")
    assert is_complete(found)


async def test_a_file_without_a_write_ahead_log(path: Path) -> None:
    app = await migrated(path)
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "delete")
    connection.close()
    found = only(await examine(parts_of(app).database), "durability")
    assert (found.state, found.seen) == (State.WARN, "journal_mode is delete, synchronous is full")


async def test_a_file_that_others_may_read(path: Path) -> None:
    """Security baseline: database file 0600."""
    app = await migrated(path)
    path.chmod(0o644)
    found = only(await examine(parts_of(app).database), "file permissions")
    assert (found.state, found.command) == (State.WARN, f"chmod 600 {path}")
    assert "(mode 644)" in found.seen


async def test_a_log_that_cannot_be_cleaned_up(path: Path) -> None:
    app = await migrated(path)
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT count(*) FROM runs").fetchall()
    async with app:
        await app.queues(by="ana").pause("mail")
        found = only(
            await examine(parts_of(app).database, limits=DoctorLimits(log_bytes=1_000)), "write-ahead log"
        )
    reader.close()
    assert found.state is State.WARN


async def test_a_disk_that_is_nearly_full(path: Path) -> None:
    app = await migrated(path)
    free = disk_of(str(path)).free_bytes
    warned = only(await examine(parts_of(app).database, limits=DoctorLimits(free_bytes=free * 2)), "disk")
    assert warned.state is State.WARN
    assert (
        only(await examine(parts_of(app).database, limits=DoctorLimits(free_bytes=free * 100)), "disk").state
        is State.BAD
    )


def test_a_disk_of_a_network() -> None:
    _, found = judge_disk(Disk(10**12, 10**12, "nfs4"), DEFAULT_LIMITS)
    assert (found.state, found.seen) == (State.BAD, "the file is on a network file system (nfs4)")
    _, unknown = judge_disk(Disk(10**12, 10**12, ""), DEFAULT_LIMITS)
    assert unknown.state is State.UNKNOWN


async def test_one_in_memory() -> None:
    app = made("sqlite://:memory:")
    async with in_memory(app):
        await app.open()
        report = await examine(parts_of(app).database)
        assert only(report, "database").seen == "SQLite, in memory"
        assert report.is_well(strict=True)


async def test_a_command_to_copy_does_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "our work; touch x.db"
    app = await migrated(path)
    path.chmod(0o644)
    found = only(await examine(parts_of(app).database), "file permissions")
    assert shlex.split(found.command) == ["chmod", "600", str(path)]
