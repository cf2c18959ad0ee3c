"""Work that exists exactly if the user's own transaction commits: over every kind of connection."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio
from tests.servers import PostgresServer
from tests.store.build import advanced, advanced_in_place, completed, parked, places, rescheduled, stopped

from redrive.errors import ConflictError, InvalidValueError, NotFoundError
from redrive.model.claim import Claim
from redrive.model.decision import Reason
from redrive.model.fact import fact
from redrive.model.failure import Category, ErrorClass
from redrive.model.id import MARK_OF_ORDER
from redrive.model.run import NewRun, new_event
from redrive.model.step import AttemptOutcome, AttemptRecord, FinishedStep, StepState
from redrive.policy.codec import decode, encode
from redrive.store import record
from redrive.store.joined import JoinedSession, joined_session
from redrive.store.leases import Holder, Leases
from redrive.store.postgres import PostgresDatabase
from redrive.store.postgres_hint import channel_of
from redrive.store.record import Record
from redrive.store.runs import DefinitionRow
from redrive.store.sqlite import SqliteDatabase
from redrive.store.statement import SqlQuery, Statement, statements
from redrive.store.store import Store

Opened = Callable[[str], AbstractAsyncContextManager[Any]]

ORG = "default"
DEFINITION = DefinitionRow("digest", "greet", '{"steps":["100%"]}')
TOKEN = 2**62 + 1
PECULIAR = [
    "100%",
    "%s %(name)s %% %",
    ":name ::text \\:id",
    "$1 $2 $$",
    'a "quoted" {brace}, \\ backslash, \\" both',
    "NULL",
    "",
    " around ",
    "'; DROP TABLE redrive.runs; --",
    "naïve ☃ 🐘 \u202e",
    "nul \0 inside, and \\u0000 spelled out",
    "lone \ud800 surrogate",
    "line\r\nbreak\ttab",
]


class Undone(Exception):
    """The user's transaction is rolled back."""


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pooled(url: str) -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(url, min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


@asynccontextmanager
async def psycopg_sync(url: str) -> AsyncIterator[Any]:
    with psycopg.connect(url) as connection:
        yield connection


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@asynccontextmanager
async def psycopg_dressed(url: str) -> AsyncIterator[Any]:
    """With the user's own cursors, rows and autocommit, inside of an explicit transaction."""
    options: Any = {"cursor_factory": psycopg.RawCursor, "row_factory": dict_row}
    with psycopg.connect(url, autocommit=True, **options) as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def sqlalchemy_connection(url: str) -> AsyncIterator[Any]:
    engine = sqlalchemy.create_engine(_address(url, "psycopg"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@asynccontextmanager
async def sqlalchemy_session(url: str) -> AsyncIterator[Any]:
    engine = sqlalchemy.create_engine(_address(url, "psycopg"))
    try:
        with orm.Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@asynccontextmanager
async def sqlalchemy_scoped(url: str) -> AsyncIterator[Any]:
    engine = sqlalchemy.create_engine(_address(url, "psycopg"))
    sessions = orm.scoped_session(orm.sessionmaker(engine))
    try:
        with sessions.begin():
            yield sessions
    finally:
        sessions.remove()
        engine.dispose()


@asynccontextmanager
async def sqlalchemy_async_connection(url: str, driver: str = "asyncpg") -> AsyncIterator[Any]:
    engine = sqlalchemy_asyncio.create_async_engine(_address(url, driver))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def sqlalchemy_async_session(url: str, driver: str = "asyncpg") -> AsyncIterator[Any]:
    engine = sqlalchemy_asyncio.create_async_engine(_address(url, driver))
    try:
        async with sqlalchemy_asyncio.AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


def sqlalchemy_async_psycopg(url: str) -> AbstractAsyncContextManager[Any]:
    return sqlalchemy_async_session(url, "psycopg")


def _address(url: str, driver: str) -> str:
    return url.replace("postgresql://", f"postgresql+{driver}://")


KINDS: list[Opened] = [
    asyncpg_connection,
    asyncpg_pooled,
    psycopg_sync,
    psycopg_async,
    psycopg_dressed,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_scoped,
    sqlalchemy_async_connection,
    sqlalchemy_async_session,
    sqlalchemy_async_psycopg,
]


@pytest.fixture(params=KINDS, ids=lambda kind: str(kind.__name__))
def opened(request: pytest.FixtureRequest) -> Opened:
    kind: Opened = request.param
    return kind


async def done(session: JoinedSession, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """As a user does it: with await, or without."""
    answer = session.run(coroutine)
    return await answer if session.is_async else answer


async def enqueue(connection: object, database: PostgresDatabase, runs: Sequence[NewRun]) -> list[str]:
    session = joined_session(connection, database)
    ids: list[str] = await done(session, Store(database).runs.enqueue_within(session, runs))
    return ids


def new_run(
    payload: str = "{}", *, key: str | None = None, request: str | None = None, **more: Any
) -> NewRun:
    run = NewRun(
        id=uuid.uuid4().hex,
        org=ORG,
        workflow="greet",
        definition=DEFINITION.digest,
        queue="default",
        priority=0,
        delay=0.0,
        at=None,
        input=payload,
        idempotency_key=key,
        request_hash=request,
        correlation_id="c",
        tags=None,
        metadata=None,
    )
    return run.replace(**more)


async def claimed(database: PostgresDatabase, count: int = 1) -> list[Claim]:
    await Store(database).runs.enqueue([new_run() for _ in range(count)], [DEFINITION])
    return await Leases(database).claim(
        "default", count, Holder(token=TOKEN, worker="worker", code_version="1", ttl=60.0)
    )


async def states(database: PostgresDatabase) -> dict[str, int]:
    return await Store(database).runs.count_by_state(ORG)


async def test_runs_exist_when_the_transaction_commits(
    opened: Opened, live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    run = new_run('{"name":"Ada"}', priority=-3, delay=90.5, tags='["a"]')
    async with opened(live_postgres.url) as connection:
        assert await enqueue(connection, postgres_database, [run]) == [run.id]
        assert await states(postgres_database) == {}
    stored = await Store(postgres_database).runs.get(run.id, ORG)
    assert (stored.input, stored.priority, stored.place, stored.tags) == (run.input, -3, "waiting", ("a",))
    assert stored.due_at == pytest.approx(stored.submitted_at + 90.5)


async def test_runs_do_not_exist_when_it_is_rolled_back(
    opened: Opened, live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    with pytest.raises(Undone):
        async with opened(live_postgres.url) as connection:
            await enqueue(connection, postgres_database, [new_run()])
            raise Undone
    assert await states(postgres_database) == {}
    with pytest.raises(NotFoundError):
        await Store(postgres_database).runs.definition(DEFINITION.digest)


async def test_an_idempotency_key_counts_within_the_transaction(
    opened: Opened, live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    first, again, other = (
        new_run(key="order-1", request="a"),
        new_run(key="order-1", request="a"),
        new_run(key="order-1", request="b"),
    )
    async with opened(live_postgres.url) as connection:
        assert await enqueue(connection, postgres_database, [first]) == [first.id]
        assert await enqueue(connection, postgres_database, [again]) == [first.id]
        assert await enqueue(connection, postgres_database, [new_run(), again]) != [first.id, first.id]
        with pytest.raises(ConflictError, match=first.id):
            await enqueue(connection, postgres_database, [other])
    assert await states(postgres_database) == {"PENDING": 2}


async def test_runs_with_an_order_key_take_their_place_when_the_transaction_commits(
    opened: Opened, live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    ids = [f"{number:028x}{MARK_OF_ORDER}" for number in range(5)]
    first, second, third, theirs, last = (new_run(key=key, id=ids.pop(0), order_key="a") for key in "edcba")
    store = Store(postgres_database)
    async with opened(live_postgres.url) as connection:
        assert await enqueue(connection, postgres_database, [first, second]) == [first.id, second.id]
        assert await enqueue(connection, postgres_database, [third]) == [third.id]
        await store.runs.enqueue([theirs], [DEFINITION])  # commits first
    await store.runs.enqueue([last], [DEFINITION])

    for run in (theirs, first, second, third, last):
        [claim] = await store.leases.claim("default", 10, Holder(TOKEN, "worker", "1", 60.0))
        assert claim.id == run.id
        async with opened(live_postgres.url) as connection:
            session = joined_session(connection, postgres_database)
            await done(session, store.records.record_within(session, [Record(completed(claim))]))


async def test_a_batch(
    opened: Opened, live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    """Values of one column may be of several types, or all missing."""
    runs = [
        new_run(encode(n), priority=n, delay=n if n % 2 else n + 0.5, key=f"k{n}" if n % 3 else None)
        for n in range(500)
    ]
    async with opened(live_postgres.url) as connection:
        assert await enqueue(connection, postgres_database, runs) == [run.id for run in runs]
        assert await enqueue(connection, postgres_database, []) == []
    for run in runs[::50]:
        stored = await Store(postgres_database).runs.get(run.id, ORG)
        assert (stored.input, stored.priority, stored.idempotency_key) == (
            run.input,
            run.priority,
            run.idempotency_key,
        )
    assert await states(postgres_database) == {"PENDING": 500}


async def test_peculiar_texts_arrive_unchanged(
    opened: Opened, live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    runs = [new_run(encode({"text": text}), metadata=encode([text])) for text in PECULIAR]
    storable = [text.replace("\0", "").replace("\ud800", "") for text in PECULIAR]
    plain = [new_run(text, correlation_id=text, key=f"{text}!", request=text) for text in storable]
    async with opened(live_postgres.url) as connection:
        await enqueue(connection, postgres_database, [*runs, *plain])
        for run in plain:
            repeated = run.replace(id=uuid.uuid4().hex)
            assert await enqueue(connection, postgres_database, [repeated]) == [run.id]
    for run, text in zip(runs, PECULIAR, strict=True):
        stored = await Store(postgres_database).runs.get(run.id, ORG)
        assert (stored.input, stored.metadata) == (run.input, run.metadata)
        assert decode(stored.input) == decode(encode({"text": text}))
    for run in plain:
        stored = await Store(postgres_database).runs.get(run.id, ORG)
        assert (stored.input, stored.correlation_id) == (run.input, run.correlation_id)


async def test_a_peculiar_schema(opened: Opened, live_postgres: PostgresServer, schema: str) -> None:
    name = f'%s :p1 $1 \\:b "{schema[:20]}'
    database = PostgresDatabase(live_postgres.url, schema=name)
    await database.migrate()
    try:
        run = new_run()
        async with opened(live_postgres.url) as connection:
            await enqueue(connection, database, [run])
        assert (await Store(database).runs.get(run.id, ORG)).id == run.id
    finally:
        async with asyncpg_connection(live_postgres.url) as connection:
            await connection.execute(f'DROP SCHEMA "{name.replace(chr(34), chr(34) * 2)}" CASCADE')
        await database.close()


async def test_a_completion_belongs_to_the_transaction(
    opened: Opened, live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    records = Store(postgres_database).records
    [claim] = await claimed(postgres_database)
    completion = Record(
        record.Completed(id=claim.id, token=claim.token, epoch=claim.epoch, result='"100% :done $1"')
    )
    with pytest.raises(Undone):
        async with opened(live_postgres.url) as connection:
            session = joined_session(connection, postgres_database)
            assert places(await done(session, records.record_within(session, [completion]))) == {
                claim.id: "ended"
            }
            raise Undone
    assert await states(postgres_database) == {"RUNNING": 1}
    async with opened(live_postgres.url) as connection:
        session = joined_session(connection, postgres_database)
        assert places(await done(session, records.record_within(session, [completion]))) == {
            claim.id: "ended"
        }
    assert await Store(postgres_database).runs.outcome(claim.id, ORG) == ("SUCCESS", '"100% :done $1"')


async def test_a_worker_that_has_lost_its_lease_completes_nothing(
    opened: Opened, live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    records = Store(postgres_database).records
    [claim] = await claimed(postgres_database)
    late = [
        record.Completed(id=claim.id, token=claim.token + 1, epoch=claim.epoch, result="1"),
        record.Completed(id=claim.id, token=claim.token, epoch=claim.epoch - 1, result="1"),
    ]
    async with opened(live_postgres.url) as connection:
        session = joined_session(connection, postgres_database)
        for change in late:
            assert await done(session, records.record_within(session, [Record(change)])) == {}
    assert await states(postgres_database) == {"RUNNING": 1}


def every_change(claims: Sequence[Claim]) -> list[Record]:
    letter = dead_letter(claims[4].id)
    event = new_event(uuid.uuid4().hex, claims[4].id, "buried", 0, fact("buried"))
    return [
        Record(completed(claims[0])),
        Record(advanced(claims[1]), step=step(claims[1].id)),
        Record(advanced_in_place(claims[2])),
        Record(rescheduled(claims[3]), attempt=attempt(claims[3].id)),
        Record(stopped(claims[4]), dead_letter=letter, event=event, limited=True),
        Record(parked(claims[5])),
    ]


def step(run_id: str) -> FinishedStep:
    return FinishedStep(
        run_id=run_id,
        step_index=0,
        name="first",
        task="greet",
        state=StepState.SUCCESS,
        output=None,
        attempts=1,
        worker="worker",
        code_version="1",
        started_at=1.5,
    )


def attempt(run_id: str) -> AttemptRecord:
    return AttemptRecord(
        run_id=run_id,
        step_index=0,
        number=1,
        outcome=AttemptOutcome.FAILED,
        worker="worker",
        code_version="1",
        started_at=1.5,
        category=Category.TIMEOUT,
        error_class=ErrorClass.RETRYABLE,
        message="100% of :it $1",
        http_status=503,
        reason=Reason.BACKOFF,
        decision='{"code":"backoff"}',  # type: ignore[arg-type]
    )


_GIVEN = {
    name
    for statement in ("insert_dead_letter", "insert_settings")
    for name in statements("records")[statement].postgres.names
}


def dead_letter(run_id: str) -> record.NewDeadLetter:
    texts = dict.fromkeys([*_GIVEN, "stack", "public_message", "pattern"], "100% of :it $1")
    numbers = dict.fromkeys(("may_have_executed", "redrives", "max_redrives"), 1)
    own = {
        "id": uuid.uuid4().hex,
        "run_id": run_id,
        "http_status": None,
        "redrive_delay": 1.5,
        "org": ORG,
        "workflow": "greet",
    }
    return record.NewDeadLetter(**{**texts, **numbers, **own})  # type: ignore[arg-type]


async def test_every_kind_of_record(
    opened: Opened, live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    claims = await claimed(postgres_database, 6)
    changes = every_change(claims)
    async with opened(live_postgres.url) as connection:
        session = joined_session(connection, postgres_database)
        won = await done(session, Store(postgres_database).records.record_within(session, changes))
    expected = ["ended", "ready", "leased", "waiting", "ended", "held"]
    assert [won[claim.id].place for claim in claims] == expected
    store = Store(postgres_database)
    runs = store.runs
    assert [(await runs.get(claim.id, ORG)).place for claim in claims] == expected
    assert [each.name for each in await runs.steps(claims[1].id, claims[1].org)] == ["first"]
    assert [each.message for each in await runs.attempts(claims[3].id, claims[3].org)] == ["100% of :it $1"]
    assert [each.message for each in await store.dead_letters.of_run(claims[4].id, claims[4].org)] == [
        "100% of :it $1"
    ]
    assert [each.kind for each in await runs.events(claims[4].id, claims[4].org)] == ["buried"]


async def test_one_row_for_a_statement_that_takes_batches(
    opened: Opened, live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    query = SqlQuery(
        "test",
        "SELECT unnest(CAST($1 AS text[])), unnest($2::bigint[]), 5 % 3",
        ("a", "b"),
        arrays=frozenset({"a", "b"}),
    )
    async with opened(live_postgres.url) as connection:
        session = joined_session(connection, postgres_database)
        rows = await done(session, session.fetch(Statement(query, query), {"a": None, "b": TOKEN}))
    assert [tuple(row) for row in rows] == [(None, TOKEN, 2)]


async def test_what_the_driver_raises_stays_as_it_is(
    opened: Opened, live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    query = SqlQuery("test", "SELECT 1 / CAST($1 AS integer)", ("divisor",))
    kinds = (asyncpg.PostgresError, psycopg.Error, sqlalchemy.exc.DBAPIError)
    with pytest.raises(kinds, match="division by zero"):
        async with opened(live_postgres.url) as connection:
            session = joined_session(connection, postgres_database)
            await done(session, session.fetch(Statement(query, query), {"divisor": 0}))


async def test_workers_hear_of_it_at_the_commit(
    opened: Opened, live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    listener = await asyncpg.connect(live_postgres.url)
    await listener.add_listener(channel_of(postgres_database.schema), lambda *told: heard.put_nowait(told[3]))
    with pytest.raises(Undone):
        async with opened(live_postgres.url) as connection:
            await hinted(connection, postgres_database, ["undone"])
            raise Undone
    async with opened(live_postgres.url) as connection:
        await hinted(connection, postgres_database, ["100%", "100%", "mail"])
        await listener.execute("SELECT 1")
        assert heard.empty()
    assert [await asyncio.wait_for(heard.get(), 10) for _ in range(2)] == ["100%", "mail"]
    await listener.close()
    assert heard.empty()


async def hinted(connection: object, database: PostgresDatabase, queues: Sequence[str]) -> None:
    session = joined_session(connection, database)
    await done(session, session.hint(queues))


async def test_two_transactions_with_the_same_key_wait_for_each_other(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    first, second = new_run(key="order-1", request="a"), new_run(key="order-1", request="a")
    async with asyncpg_connection(live_postgres.url) as late:
        async with asyncpg_connection(live_postgres.url) as early:
            await enqueue(early, postgres_database, [first])
            waiting = asyncio.create_task(enqueue(late, postgres_database, [second]))
            await asyncio.sleep(0.05)
            assert not waiting.done()
        assert await waiting == [first.id]


async def test_sqlite_has_no_transaction_to_join(live_postgres: PostgresServer) -> None:
    async with asyncpg_connection(live_postgres.url) as connection:
        with pytest.raises(InvalidValueError, match="needs PostgreSQL"):
            joined_session(connection, SqliteDatabase(":memory:"))


@pytest.mark.parametrize(
    "connection", [None, object(), "postgresql://", psycopg, sqlalchemy.create_engine("sqlite://")]
)
def test_other_things_are_no_connections(connection: object) -> None:
    with pytest.raises(InvalidValueError, match=r"asyncpg Connection.*psycopg 3.*AsyncSession"):
        joined_session(connection, PostgresDatabase("postgresql://nowhere"))


async def test_asyncpg_outside_a_transaction(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    async with asyncpg.create_pool(live_postgres.url, min_size=1) as pool, pool.acquire() as connection:
        with pytest.raises(InvalidValueError, match=r"async with connection\.transaction"):
            joined_session(connection, postgres_database)


async def test_psycopg_with_autocommit(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    with psycopg.connect(live_postgres.url, autocommit=True) as connection:
        with pytest.raises(InvalidValueError, match="autocommit"):
            joined_session(connection, postgres_database)
        with connection.transaction():
            assert not joined_session(connection, postgres_database).is_async


async def test_sqlalchemy_with_autocommit(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    engine = sqlalchemy.create_engine(_address(live_postgres.url, "psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection, pytest.raises(InvalidValueError, match="AUTOCOMMIT"):
        joined_session(connection, postgres_database)
    with orm.Session(engine) as session, pytest.raises(InvalidValueError, match="AUTOCOMMIT"):
        await enqueue(session, postgres_database, [new_run()])
    engine.dispose()
    assert await states(postgres_database) == {}


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_sqlalchemy_async_with_autocommit(
    driver: str, live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    engine = sqlalchemy_asyncio.create_async_engine(_address(live_postgres.url, driver))
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        with pytest.raises(InvalidValueError, match="AUTOCOMMIT"):
            joined_session(connection, postgres_database)
    await engine.dispose()


async def test_sqlalchemy_that_streams(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    engine = sqlalchemy.create_engine(_address(live_postgres.url, "psycopg"))
    with engine.execution_options(stream_results=True).begin() as connection:
        await enqueue(connection, postgres_database, [new_run()])
    engine.dispose()
    assert await states(postgres_database) == {"PENDING": 1}


async def test_sqlalchemy_over_another_database(postgres_database: PostgresDatabase) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(InvalidValueError, match="sqlite"):
        joined_session(connection, postgres_database)
    engine.dispose()


async def test_waiting_for_something_else_over_a_sync_connection(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    with psycopg.connect(live_postgres.url) as connection:
        session = joined_session(connection, postgres_database)
        with pytest.raises(RuntimeError, match="sync connection"):
            session.run(asyncio.sleep(0))


async def test_a_subclass_is_recognised(
    live_postgres: PostgresServer, postgres_database: PostgresDatabase
) -> None:
    class Traced(orm.Session):
        pass

    engine = sqlalchemy.create_engine(_address(live_postgres.url, "psycopg"))
    with Traced(engine) as session, session.begin():
        await enqueue(session, postgres_database, [new_run()])
    engine.dispose()
    assert await states(postgres_database) == {"PENDING": 1}
