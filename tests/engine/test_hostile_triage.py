"""Triage under attack (W8, W13, W14, W16): hostile words, strangers, wrong states, both databases.

Whatever is said is kept as it was said or refused with a reason; what is refused has changed nothing.
"""

from __future__ import annotations

import inspect
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import pytest
from tests.engine.workbench import Ear
from tests.servers import PostgresServer
from tests.store.build import TABLES, ask

from redrive.app import Redrive
from redrive.config import Settings
from redrive.engine.audit import Audit
from redrive.engine.dead_letters import DeadLetters
from redrive.engine.desk import Desk
from redrive.engine.failure_groups import FailureGroups
from redrive.engine.operations import Operations
from redrive.engine.replays import Replays
from redrive.errors import FinalError, InvalidValueError, NotFoundError, RedriveError, TransitionError
from redrive.model.dead_letter import DEAD_LETTER_TRANSITIONS, DeadLetterState
from redrive.model.failure_group import GROUP_TRANSITIONS, GroupState
from redrive.policy.codec import decode
from redrive.verify import verify

VOLATILE = {"workers", "processors", "limits", "breakers", "queues"}
KEPT = tuple(table for table in TABLES if table not in VOLATILE)

HOSTILE = {
    "NUL": "a\x00b",
    "lone surrogate": "a\ud800b",
    "low surrogate": "\udfff",
    "escape": "\x1b[31mred\x1b[0m",
    "right to left": "abc\u202egpj.exe",
    "zero width": "a\u200bb",
    "byte order mark": "\ufeffabc",
    "noncharacter": "a\uffffb",
    "astral": "\U0001f4a5\U0010ffff",
    "combining": "e" + "\u0301" * 50,
    "quote": "'; DROP TABLE dead_letters; --",
    "double quote": '" OR 1=1 --',
    "dollar": "$1 $$ ?1 :org @p",
    "braces": "{org} %(org)s {0}",
    "wildcards": "%_%",
    "backslash": "\\' \\\\ \\u0000",
    "sealed": '{"$sealed":"k:gAAAA"}',
    "json": '[{"a":null}]',
    "null word": "null",
    "html": "<script>alert(1)</script>",
    "newline": "a\nb",
    "carriage return": "a\rINFO forged",
    "line separator": "a\u2028b",
    "blank": "   ",
    "empty": "",
    "number": "1e999",
    "long": "x" * 1_000_000,
}
texts = pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())


class Ground:
    """An application with failed work of two organizations, executed when the test says so."""

    def __init__(self, url: str, schema: str, **settings: Any) -> None:
        self.app = Redrive(
            url, settings=Settings(schema=schema, **settings), queues=["default"], log=False, durable=False
        )
        self.broken = True
        self.app.task(self._charge, name="charge", max_attempts=1)  # type: ignore[call-overload]

    async def _charge(self, order: dict[str, Any]) -> str:
        if self.broken:
            raise FinalError(order.get("say", "declined"))
        return "paid"

    async def work(self) -> int:
        return await self.app.worker_in_test().work_off()

    async def fail(self, *says: str, org: str = "default", **options: Any) -> list[str]:
        """A failed run for each; the ids of their letters."""
        runs = await self.app.start_many("charge", [{"say": say} for say in says], org=org, **options)
        await self.work()
        letters = [await run.dead_letter() for run in runs]
        return [letter.id for letter in letters if letter is not None]

    async def everything(self) -> dict[str, list[str]]:
        """All that a refused call must leave as it was."""
        database = self.app.database
        return {table: sorted(map(repr, await ask(database, f"SELECT * FROM redrive.{table}"))) for table in KEPT}

    async def check(self, *orgs: str) -> None:
        verdict = await verify(self.app.database)
        assert verdict.sound, str(verdict)
        for org in orgs or ("default",):
            audit = await (await self.app.desk(org=org)).audit.verify()
            assert audit.sound, str(audit)


@pytest.fixture(params=["sqlite", "postgres"])
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    if request.param == "sqlite":
        ground = Ground(f"sqlite:///{tmp_path / 'work.db'}", "redrive")
        yield ground
        await ground.app.close()
        return
    server: PostgresServer = request.getfixturevalue("live_postgres")
    schema = f"test_{uuid.uuid4().hex}"
    ground = Ground(server.url, schema)
    yield ground
    await ground.app.close()
    connection = await asyncpg.connect(server.url)
    await connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    await connection.close()


async def refused_or_done(ground: Ground, call: Callable[[], Awaitable[Any]]) -> Any:
    """What it gave; None when it was refused, by an error of ours and with nothing changed."""
    before = await ground.everything()
    try:
        return await call()
    except RedriveError as error:
        assert 0 < len(str(error)) < 2_000, "the message is an answer, not an echo"
        assert str(error).isprintable(), repr(str(error))
        assert await ground.everything() == before
        return None


# What people say

async def test_hostile_words_are_kept_as_they_were_said_or_refused(ground: Ground) -> None:
    [letter_id] = await ground.fail("x")
    desk = await ground.app.desk(by="ana")
    letters = desk.dead_letters
    for name, text in HOSTILE.items():
        note = await refused_or_done(ground, lambda: letters.note(letter_id, text))
        if note is not None:
            assert (await letters.notes(letter_id))[-1].body == text.strip(), name
        if await refused_or_done(ground, lambda: letters.tag(letter_id, [text])):
            tags = decode((await letters.get(letter_id)).tags or "[]")
            assert text.strip() in tags, name
            assert await refused_or_done(ground, lambda: letters.tag(letter_id, [], [text]))
            assert (await letters.get(letter_id)).tags is None, name
        if await refused_or_done(ground, lambda: letters.assign(letter_id, text)):
            assert (await letters.get(letter_id)).assignee == text.strip(), name
        if await refused_or_done(ground, lambda: letters.resolve(letter_id, text)):
            assert (await letters.get(letter_id)).resolution == text.strip(), name
            await letters.reopen(letter_id, text)
    await ground.check()
