"""Exactly-once steps: a task completes its step in its own transaction on PostgreSQL."""

from __future__ import annotations

import asyncpg
import pytest
from tests.engine.workbench import working
from tests.servers import PostgresServer
from tests.store.build import ask

from redrive import Backoff, Context, Redrive, RetryPolicy
from redrive.parts import parts_of
from redrive.policy.curve import Exponential
from redrive.settings import Settings

SOON = RetryPolicy(max_attempts=2, backoff=Backoff(Exponential(0.01)))


@pytest.fixture
def app(live_postgres: PostgresServer, schema: str) -> Redrive:
    return Redrive(live_postgres.url, settings=Settings(schema=schema), log=False)


async def test_a_task_that_has_lost_its_lease_is_asked_to_roll_back(
    app: Redrive, live_postgres: PostgresServer, schema: str
) -> None:
    @app.task(retry=SOON)
    async def book(context: Context) -> str:
        connection = await asyncpg.connect(live_postgres.url)
        try:
            async with connection.transaction():
                await connection.execute(f"INSERT INTO {schema}.bookings VALUES ($1)", context.attempt)
                if context.attempt == 1:
                    lost = "UPDATE redrive.runs SET token = token + 1, leased_until = 1.0"
                    await ask(parts_of(app).database, lost)
                await context.complete("booked", connection=connection)
        finally:
            await connection.close()
        return "booked"

    await app.open()
    await ask(parts_of(app).database, "CREATE TABLE redrive.bookings (attempt integer)")
    async with working(app, timeout=20.0):
        run = await app.start(book)
        assert await run.result(15) == "booked"
        booked = await ask(parts_of(app).database, "SELECT attempt FROM redrive.bookings")
    assert booked == [(2,)]


async def test_a_completion_that_was_rolled_back_is_a_failure(
    app: Redrive, live_postgres: PostgresServer
) -> None:
    @app.task
    async def book(context: Context) -> None:
        connection = await asyncpg.connect(live_postgres.url)
        transaction = connection.transaction()
        await transaction.start()
        await context.complete("booked", connection=connection)
        await transaction.rollback()
        await connection.close()

    async with working(app, timeout=20.0):
        run = await app.start(book)
        assert await run.wait(5) == "DLQ_PENDING"
        letter = await run.dead_letter()
    assert letter is not None
    assert "did not commit" in letter.message
