"""Item 12 (W9) on both databases: a replay that fails in an earlier step reopens the dead letter."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest
from tests.servers import PostgresServer

from redrive import FinalError, Redrive
from redrive.engine.task import AnyTask
from redrive.errors import ReplayRefusedError
from redrive.parts import parts_of
from redrive.settings import Settings
from redrive.verify import verify


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_12_w9_both_steps_have_a_live_letter_until_they_succeed(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server: PostgresServer | None = request.getfixturevalue("live_postgres") if kind == "postgres" else None
    url = f"sqlite:///{tmp_path / 'work.db'}" if server is None else server.url
    schema = f"test_{uuid.uuid4().hex}"
    app, broken = Redrive(url, settings=Settings(schema=schema), log=False), {"ship"}

    def step(name: str) -> AnyTask:
        @app.task(name=name, max_attempts=1)
        async def run(number: int) -> int:
            if name in broken:
                raise FinalError(name)
            return number

        return run

    flow = app.workflow("flow", [step("reserve"), step("charge"), step("ship")])
    async with asyncio.timeout(60), app, app.worker(poll_seconds=0.05):
        failures = app.failures(by="ana")

        async def live() -> dict[str, str]:
            return {line.step: line.state for line in (await failures.list("is:live")).lines}

        async def both_open() -> bool:
            return await live() == {"charge": "OPEN", "ship": "OPEN"}

        async def none_live() -> bool:
            return await live() == {}

        run = await app.start(flow, 1)
        await run.wait()
        letter = await run.dead_letter()
        assert letter is not None
        broken.add("charge")
        await failures.replay(letter.id, from_step=0)
        await until(both_open)
        verdict = await verify(parts_of(app).database)
        assert verdict.sound, str(verdict)
        with pytest.raises(ReplayRefusedError, match="a later step of its run has a dead letter too"):
            await failures.replay(letter.id, "STEP_ONLY")

        broken.clear()
        await failures.replay(letter.id, retry={"max_retries": 2})
        assert await run.result() == 1
        await until(none_live)
        told = [entry.action for entry in await failures.audit.about(letter.id)]
        assert told[0] == "dead_letter.resolved"
        assert "dead_letter.reopened" in told
        verdict = await verify(parts_of(app).database)
        assert verdict.sound, str(verdict)
    if server is not None:
        connection = await asyncpg.connect(server.url)
        await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        await connection.close()
