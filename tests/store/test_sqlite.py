"""What only SQLite has: a file, a disk that may be full, other processes that write to the same file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest
from tests.store.build import (
    ORG,
    adhoc,
    ask,
    claimed,
    completed,
    enqueued,
    holder,
    new_run,
    places,
    tables,
    value,
)

from redrive.errors import StoreError, StoreUnavailableError
from redrive.store import sqlite, sqlite_session
from redrive.store.record import Record
from redrive.store.sqlite import SqliteDatabase
from redrive.store.store import Store
from redrive.testing import VirtualClock

pytestmark = pytest.mark.usefixtures("real_migrations")

INSERT = adhoc("INSERT INTO limits (name, maximum, in_use) VALUES (:name, 1, 0)")

ADD_MANY = """
import asyncio, sys
from redrive.store.limits import LimitRow
from redrive.store.sqlite import SqliteDatabase
from redrive.store.store import Store

async def main():
    store = Store(SqliteDatabase(sys.argv[1]))
    await store.limits.workers()
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[2])):
        async with store.database.transaction() as session:
            free = await store.limits.lock_limits(session, {"shared": 1000})
            await store.limits.save_limits(session, [LimitRow("shared", 1000, 1001 - free["shared"])])
    await store.close()

asyncio.run(main())
"""

BEGIN = """
import apsw, sys
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
connection.execute("INSERT INTO limits VALUES ('a', 1, 1)")
print("in", flush=True)
sys.stdin.read()
"""

AS_NOBODY = """
import asyncio, os, sys
import apsw, encodings.idna
from redrive.errors import StoreUnavailableError
from redrive.store.sqlite import SqliteDatabase
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)

async def main():
    try:
        await SqliteDatabase(sys.argv[1]).migrate()
    except StoreUnavailableError as error:
        print(error)

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "redrive.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[SqliteDatabase]:
    database = SqliteDatabase(str(path))
    await database.migrate()
    yield database
    await database.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter, unlike pytest's own folders."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def names(database: SqliteDatabase) -> list[str]:
    return [row[0] for row in await ask(database, "SELECT name FROM limits ORDER BY name")]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# The file


async def test_only_the_owner_may_read_the_file(path: Path) -> None:
    before = os.umask(0)
    try:
        database = SqliteDatabase(str(path))
        await database.migrate()
        found = {each.name: mode(each) for each in path.parent.iterdir()}
        await database.close()
    finally:
        os.umask(before)

    assert set(found) == {"redrive.db", "redrive.db-wal", "redrive.db-shm"}
    assert set(found.values()) == {0o600}


async def test_permissions_set_by_an_administrator_are_kept(path: Path) -> None:
    path.touch()
    path.chmod(0o640)
    database = SqliteDatabase(str(path))
    await database.migrate()
    await database.close()

    assert mode(path) == 0o640


@pytest.mark.parametrize(("durable", "synchronous"), [(True, 2), (False, 0)])
async def test_every_commit_is_on_disk_before_it_is_reported(
    path: Path, durable: bool, synchronous: int
) -> None:
    for database in (first := SqliteDatabase(str(path), durable=durable), first.another()):
        await database.migrate()
        assert await value(database, "PRAGMA journal_mode") == "wal"
        assert await value(database, "PRAGMA synchronous") == synchronous
        assert await value(database, "PRAGMA cache_size") == -16_000  # KiB
        await database.close()


async def test_stored_rows_survive_closing(database: SqliteDatabase) -> None:
    [run_id] = await enqueued(Store(database))
    await database.close()
    await database.close()

    assert (await Store(database).runs.get(run_id, ORG)).id == run_id


async def test_a_copy_of_the_driver_that_is_fixed() -> None:
    """Older versions can corrupt a file in WAL mode when it is reset."""
    import apsw

    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)


def test_one_event_loop_after_the_other(path: Path) -> None:
    database = SqliteDatabase(str(path))

    async def use() -> int:
        await database.migrate()
        await asyncio.gather(*[enqueued(Store(database)) for _ in range(5)])
        count = len(await Store(database).runs.all())
        await database.close()
        return count

    assert [asyncio.run(use()), asyncio.run(use())] == [5, 10]


# In memory


async def test_in_memory() -> None:
    database = SqliteDatabase(":memory:")
    store = Store(database)
    await store.open()
    assert database.in_memory
    assert database.another() is database

    claim = await claimed(store)

    assert places(await store.records.record([Record(completed(claim))])) == {claim.id: "ended"}
    assert await store.runs.outcome(claim.id, ORG) == ("SUCCESS", '"done"')
    await store.close()


# Time


async def test_the_given_clock_decides(path: Path) -> None:
    """Decision 6: SQLite runs on one machine."""
    clock = VirtualClock()
    store = Store(SqliteDatabase(str(path), clock=clock))
    await store.open()
    [run_id] = await store.runs.enqueue([new_run(delay=60.0)], [])
    assert (await store.runs.get(run_id, ORG)).due_at == clock.now() + 60.0
    clock.advance(59.999)
    assert await store.leases.promote(10) == []
    clock.advance(0.001)
    assert await store.leases.promote(10) == ["default"]

    await store.leases.claim("default", 1, holder(ttl=30.0))
    clock.advance(30.0)
    assert await store.leases.reclaim(1, 30.0, 10) == []
    clock.advance(0.001)
    assert len(await store.leases.reclaim(1, 30.0, 10)) == 1
    await store.close()


async def test_a_transaction_has_one_moment(path: Path) -> None:
    clock = VirtualClock()
    database = SqliteDatabase(str(path), clock=clock)
    await database.migrate()
    async with database.transaction() as session:
        moments = [await value(session, "SELECT :now")]
        clock.advance(5.0)
        moments.append(await value(session, "SELECT :now"))
    moments.append(await value(database, "SELECT :now"))
    with pytest.raises(RuntimeError):
        async with database.transaction():
            raise RuntimeError
    clock.advance(5.0)
    moments.append(await value(database, "SELECT :now"))

    assert [moment - moments[0] for moment in moments] == [0.0, 0.0, 5.0, 10.0]
    await database.close()


async def test_the_moment_of_a_write_is_not_before_it_has_the_lock(path: Path) -> None:
    """An attempt would otherwise begin before the previous one ended, under an expired lease."""
    clock = VirtualClock()
    store = Store(SqliteDatabase(str(path), clock=clock))
    await store.open()
    await enqueued(store)
    with closing(apsw.Connection(str(path))) as other:  # the same library, so its locks conflict
        other.execute("BEGIN IMMEDIATE")
        claiming = asyncio.create_task(store.leases.claim("default", 1, holder(ttl=1.0)))
        await asyncio.sleep(0.5)  # by now it waits for the lock
        assert not claiming.done()
        clock.advance(5.0)
        other.execute("COMMIT")
    [claim] = await claiming
    assert claim.attempt_started_at == clock.now()
    assert await store.leases.reclaim(1, 30.0, 10) == []
    await store.close()


# Transactions


async def test_a_batch_is_all_or_nothing(database: SqliteDatabase) -> None:
    rows = [new_run(), new_run(workflow=None), new_run()]
    with pytest.raises(StoreError):
        await Store(database).runs.enqueue(rows, [])

    assert await Store(database).runs.all() == []


@pytest.mark.parametrize("cancellations", [1, 2, 3])
async def test_cancelled_inside_of_a_transaction(database: SqliteDatabase, cancellations: int) -> None:
    started = asyncio.Event()

    async def long_transaction() -> None:
        async with database.transaction() as session:
            await session.fetch(INSERT, {"name": "a"})
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(long_transaction())
    await started.wait()
    for _ in range(cancellations):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task

    await usable(database)
    assert await names(database) == ["other", "same"]


async def usable(database: SqliteDatabase) -> None:
    """Check that neither the object nor the file is locked."""
    async with asyncio.timeout(60):
        other = database.another()
        await other.fetch(INSERT, {"name": "other"})
        await other.close()
        async with database.transaction() as session:
            await session.fetch(INSERT, {"name": "same"})


@pytest.mark.parametrize("steps", range(1, 14))
@pytest.mark.parametrize("cancellations", [1, 2])
async def test_cancelled_at_any_point(path: Path, steps: int, cancellations: int) -> None:
    database = SqliteDatabase(str(path), durable=False)
    await database.migrate()

    async def write() -> None:
        async with database.transaction() as session:
            await session.fetch(INSERT, {"name": "a"})
            await session.fetch(INSERT, {"name": "b"})

    task = asyncio.create_task(write())
    for _ in range(steps):
        await asyncio.sleep(0.0002)
    for _ in range(cancellations):
        task.cancel()
        await asyncio.sleep(0)
    with suppress(asyncio.CancelledError):
        await task

    await usable(database)
    assert await names(database) in (["other", "same"], ["a", "b", "other", "same"])
    await database.close()


async def test_a_cancelled_statement_leaves_it_usable(database: SqliteDatabase) -> None:
    tasks = [asyncio.create_task(enqueued(Store(database), 50)) for _ in range(4)]
    await asyncio.sleep(0.001)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    await usable(database)
    assert len(await Store(database).runs.all()) % 50 == 0


@pytest.mark.parametrize("error", [RuntimeError(), StoreError(), KeyboardInterrupt()])
async def test_a_failing_body_rolls_back(database: SqliteDatabase, error: BaseException) -> None:
    with pytest.raises(type(error)):
        async with database.transaction() as session:
            await session.fetch(INSERT, {"name": "a"})
            raise error

    await usable(database)
    assert await names(database) == ["other", "same"]


async def test_a_failed_statement_leaves_the_transaction_usable(database: SqliteDatabase) -> None:
    async with database.transaction() as session:
        await session.fetch(INSERT, {"name": "a"})
        with pytest.raises(StoreError):
            await session.fetch(INSERT, {"name": "a"})
        await session.fetch(INSERT, {"name": "b"})

    assert await names(database) == ["a", "b"]


# Other processes


async def test_processes_write_to_one_file_at_once(database: SqliteDatabase, path: Path) -> None:
    """No update is lost, and no process gets an error about a locked database."""
    pipe = asyncio.subprocess.PIPE
    started = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", ADD_MANY, str(path), "200", stdin=pipe, stdout=pipe, stderr=pipe
        )
        for _ in range(3)
    ]
    for each in started:
        assert each.stdout is not None
        assert await each.stdout.readline() == b"ready\n"

    outputs = await asyncio.gather(*[each.communicate(b"go\n") for each in started])

    assert [each.returncode for each in started] == [0, 0, 0], outputs
    assert await value(database, "SELECT in_use FROM limits WHERE name = 'shared'") == 600


async def test_many_tasks_share_one_object(database: SqliteDatabase) -> None:
    store = Store(database)

    async def work() -> int:
        done = 0
        while claims := await store.leases.claim("default", 2, holder()):
            done += len(await store.records.record([Record(completed(claim)) for claim in claims]))
        return done

    await enqueued(store, 40)
    assert sum(await asyncio.gather(*[work() for _ in range(5)])) == 40


async def test_a_file_that_stays_locked(
    database: SqliteDatabase, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_session, "BUSY_TIMEOUT_MS", 20)
    other = database.another()
    store = Store(other)
    await store.open()
    async with database.transaction():
        with pytest.raises(StoreUnavailableError, match="another process keeps it locked"):
            await enqueued(store)
        with pytest.raises(StoreUnavailableError, match="another process keeps it locked"):
            async with other.transaction():
                pytest.fail("it is locked")
        assert await store.runs.all() == []  # reading still works

    await enqueued(store)
    await other.close()


async def test_a_process_that_is_killed_leaves_no_lock(database: SqliteDatabase, path: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BEGIN, str(path), stdin=pipe, stdout=pipe
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"in\n"
    process.kill()
    await process.communicate()

    await usable(database)
    assert await names(database) == ["other", "same"]


async def test_a_write_of_another_process_is_noticed(database: SqliteDatabase) -> None:
    heard: list[str] = []
    other = database.another()
    async with database.listen(heard.append), asyncio.timeout(60):
        await asyncio.sleep(2 * sqlite.LISTEN_INTERVAL)
        while not heard:
            await enqueued(Store(other))
            await asyncio.sleep(sqlite.LISTEN_INTERVAL)
        assert set(heard) == {""}
        heard.clear()
        await database.hint(["mail", "fax"])
        assert [name for name in heard if name] == ["mail", "fax"]
    heard.clear()
    await database.hint(["mail"])
    await other.close()

    assert heard == []


# A full disk


async def fill(database: SqliteDatabase) -> Callable[[], None]:
    connection = database._connection
    assert connection is not None
    connection.pragma("max_page_count", connection.pragma("page_count"))
    return lambda: connection.pragma("max_page_count", 1_000_000)


async def test_a_full_disk_is_reported_and_recovered_from(database: SqliteDatabase) -> None:
    store = Store(database)
    claim = await claimed(store)
    make_room = await fill(database)
    before = await tables(database)
    large = '"' + "x" * 1_000_000 + '"'

    with pytest.raises(StoreUnavailableError, match=r"redrive\.db.*the disk is full; free some space"):
        await enqueued(store, 3, input=large)
    with pytest.raises(StoreUnavailableError, match="the disk is full"):
        await store.records.record([Record(completed(claim, result=large))])
    with pytest.raises(StoreUnavailableError, match="the disk is full"):
        async with database.transaction() as session:
            await session.fetch(INSERT, {"name": "a"})
            await store.runs.enqueue_within(session, [new_run(input=large)])

    assert await tables(database) == before
    make_room()
    assert places(await store.records.record([Record(completed(claim, result=large))])) == {claim.id: "ended"}
    assert len(await enqueued(store, 3, input=large)) == 3
    await usable(database)


async def test_a_full_disk_that_the_body_ignores_is_no_success(database: SqliteDatabase) -> None:
    """SQLite may have rolled everything back on its own: the transaction must not look committed."""
    make_room = await fill(database)
    committed = False
    with suppress(StoreError):
        async with database.transaction() as session:
            await session.fetch(INSERT, {"name": "a"})
            with suppress(StoreError):
                await Store(database).runs.enqueue_within(session, [new_run(input="x" * 1_000_000)])
            await session.fetch(INSERT, {"name": "b"})
        committed = True

    make_room()
    assert await names(database) == (["a", "b"] if committed else [])


# Unusable files


@pytest.mark.parametrize("place", ["missing/redrive.db", "file/redrive.db", "folder", "x" * 300])
async def test_places_that_cannot_be_used(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    database = SqliteDatabase(str(tmp_path / place))

    with pytest.raises(
        StoreUnavailableError, match="check that its directory exists and that this user can write to it"
    ):
        await database.migrate()


async def test_a_folder_that_is_made_later(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "later" / "redrive.db"))
    with pytest.raises(StoreUnavailableError):
        await database.migrate()

    (tmp_path / "later").mkdir()
    await database.migrate()

    await usable(database)
    await database.close()


def test_a_folder_that_is_not_writable(open_folder: Path) -> None:
    (open_folder / "locked").mkdir(mode=0o555)
    message = as_nobody(open_folder / "locked" / "redrive.db")

    assert "this user can write to it" in message


def test_a_file_that_is_not_writable(open_folder: Path) -> None:
    path = open_folder / "redrive.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE x (a)")
    path.chmod(0o444)
    message = as_nobody(path)

    assert str(path) in message
    assert "read-only" in message or "this user can write to it" in message


def as_nobody(path: Path) -> str:
    """Return the error message that a user without write access gets."""
    found = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(path)], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.parametrize(
    "content", [b"not a database, but long enough to be taken for one" * 100, b"x" * 4096]
)
async def test_a_file_of_another_kind_is_refused_and_left_as_it_is(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    database = SqliteDatabase(str(path))

    with pytest.raises(StoreError, match=r"redrive\.db reported an error: .*not a database") as raised:
        await database.migrate()

    assert not isinstance(raised.value, StoreUnavailableError)
    assert path.read_bytes() == content


async def test_a_damaged_file_is_reported(database: SqliteDatabase, path: Path) -> None:
    await enqueued(Store(database), 200)
    await database.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)

    with pytest.raises(StoreError, match=r"redrive\.db reported an error: .*malformed") as raised:
        await Store(database).runs.all()

    assert not isinstance(raised.value, StoreUnavailableError)


async def test_the_tables_of_another_program_are_refused_and_left_as_they_are(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE runs (name TEXT)")
        connection.execute("INSERT INTO runs VALUES ('marathon')")
        connection.commit()
    database = SqliteDatabase(str(path))

    with pytest.raises(StoreError, match="runs already exists"):
        await database.migrate()

    await database.close()
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master").fetchall()
        assert found == [("runs",)]
        assert connection.execute("SELECT * FROM runs").fetchall() == [("marathon",)]


async def test_a_listener_notices_every_burst_of_commits_of_another_connection(tmp_path: Path) -> None:
    own, other = (SqliteDatabase(str(tmp_path / "work.db")) for _ in range(2))
    await own.migrate()
    heard = asyncio.Event()
    async with own.listen(lambda queue: heard.set()):
        for burst in range(5):
            heard.clear()
            for number in range(3):
                await other.fetch(INSERT, {"name": f"{burst} {number}"})
            await asyncio.wait_for(heard.wait(), 30)
    for database in (own, other):
        await database.close()
