"""No statement reaches another org's data (W13)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import pytest_asyncio
from tests.guards.org_filters import (
    API_KEY,
    CLOSED,
    CLOSED_RUN,
    COMMON,
    ENDED_KEY,
    EVENT,
    EXCEPTIONS,
    FINGERPRINT,
    GONE_RUN,
    KEY,
    LETTER,
    MODULES,
    OPERATION,
    ORPHAN,
    OWNER,
    PROJECTED,
    QUEUE,
    READY_RUN,
    REBUILD,
    RUN,
    STRANGER,
    STREAM,
    SUCCEEDED_RUN,
    TRESPASSES,
    USER,
)
from tests.store.build import ask, tables
from tests.store.by_hand import replay
from tests.store.conftest import migrated, on_postgres
from tests.store.letters import letter, put, put_failed

from redrive.model.audit import Action, NewEntry
from redrive.model.failure_group import Occurrence
from redrive.store.bulk_replays import NewOperation
from redrive.store.database import Database, Row
from redrive.store.sqlite import SqliteDatabase
from redrive.store.statement import statement, statements
from redrive.store.store import Store

INVERSE = "bulk_replays.unknown_ids"
"""Returns ids that do not exist for the org."""


async def settle_owner(database: Database) -> None:
    """Give the owner at least one row of every kind."""
    store, known = Store(database), {"org": OWNER, "queue": QUEUE, "fingerprint": FINGERPRINT}
    await put_failed(database, id=LETTER, run_id=RUN, **known)
    await put_failed(database, id=CLOSED, run_id=CLOSED_RUN, state="IGNORED", **known)
    await put(database, [letter(id=ORPHAN, run_id=GONE_RUN, step_index=7, **known)])
    await ask(
        database,
        "UPDATE redrive.runs SET idempotency_key = :key, request_hash = 'h' WHERE id = :id",
        key=KEY,
        id=RUN,
    )
    await _beside(database)
    await replay(
        database, id="replay", org=OWNER, letter_id=LETTER, run_id=RUN, number=1, fingerprint=FINGERPRINT
    )
    await replay(
        database,
        id="replay of nothing",
        org=OWNER,
        letter_id=ORPHAN,
        run_id=GONE_RUN,
        fingerprint=FINGERPRINT,
    )
    async with database.transaction() as session:
        for name in (OPERATION, "newer operation"):
            await _planned(session, store, name)
        names = (
            "title",
            "pattern",
            "reason",
            "greet",
            "first",
            "greet",
            "timeout",
            "TimeoutError",
            LETTER,
            "v1",
        )
        await store.groups.occurred(session, [Occurrence(OWNER, FINGERPRINT, *names)], lambda *_: None)
        said = [(LETTER,), (LETTER, CLOSED)]
        await store.audit.append(
            session, [NewEntry(OWNER, "ana", Action.DEAD_LETTER_TAGGED, each, {}) for each in said]
        )


async def _planned(session: Any, store: Store, name: str) -> None:
    new = NewOperation(name, OWNER, "FROM_STEP", "{}", "{}", None, "", "{}", "ana")
    await store.operations.freeze_ids(session, {**new._asdict(), "requested_by": "ana"}, [LETTER])
    await store.operations.insert(session, new)
    if name != OPERATION:
        await ask(
            session,
            "UPDATE redrive.replay_operations SET planned_at = 9e9, state = 'RUNNING' WHERE id = :id",
            id=name,
        )


async def _beside(database: Database) -> None:
    for text in (
        "INSERT INTO redrive.dead_letter_notes (id, org, letter_id, at, author, body)"
        f" VALUES ('note', '{OWNER}', '{LETTER}', 1.0, 'ana', 'text')",
        "INSERT INTO redrive.dead_letter_dependencies (letter_id, depends_on, org)"
        f" VALUES ('{LETTER}', '{CLOSED}', '{OWNER}')",
        "INSERT INTO redrive.attempts (run_id, step_index, number, outcome, worker, code_version, started_at,"
        f" ended_at, reason, explanation) VALUES ('{RUN}', 0, 1, 'failed', 'w', 'v', 1.0, 2.0, '', '')",
        "INSERT INTO redrive.steps (run_id, step_index, name, task, state, attempts, worker, code_version,"
        f" started_at, ended_at) VALUES ('{RUN}', 0, 'a', 'a', 'SUCCESS', 1, 'w', 'v', 1.0, 2.0)",
        "INSERT INTO redrive.run_events (id, run_id, kind, step_index, detail, at)"
        f" VALUES ('event', '{RUN}', 'held', 0, '', 1.0)",
        "INSERT INTO redrive.runs (id, org, workflow, definition, queue, priority, state, place,"
        " submitted_at, step_index, step_state, input, attempt, epoch, failures, rate_limit_waits, holds,"
        " losses, isolated_crashes, isolation, started_at, ended_at, sort_key)"
        f" VALUES ('{SUCCEEDED_RUN}', '{OWNER}', 'greet', 'digest', 'default', 0, 'SUCCESS', 'ended', 1.0,"
        " 0, 'SUCCESS', '{}', 1, 1, 0, 0, 0, 0, 0, 0, 1.0, 2.0, 1.0)",
        "INSERT INTO redrive.runs (id, org, workflow, definition, queue, priority, state, place,"
        " submitted_at, step_index, step_state, input, attempt, epoch, failures, rate_limit_waits, holds,"
        " losses, isolated_crashes, isolation, sort_key)"
        f" VALUES ('{READY_RUN}', '{OWNER}', 'greet', 'digest', 'default', 0, 'PENDING', 'ready', 1.0,"
        " 0, 'PENDING', '{}', 0, 0, 0, 0, 0, 0, 0, 0, 1.0)",
        "INSERT INTO redrive.definitions (digest, workflow, body, created_at)"
        " VALUES ('digest', 'greet', '{}', 1.0) ON CONFLICT DO NOTHING",
        _event(EVENT, "once"),
        _event(PROJECTED, "projected"),
        "INSERT INTO redrive.projections (event_id, projector, version, org, stream, run_id, waits)"
        f" VALUES ('{EVENT}', 'invoice', 1, '{OWNER}', '{STREAM}', '{READY_RUN}', 1)",
        "INSERT INTO redrive.projections (event_id, projector, version, org, stream, run_id, waits)"
        f" VALUES ('{PROJECTED}', 'invoice', 1, '{OWNER}', '{STREAM}', '{SUCCEEDED_RUN}', 0)",
        _rebuild(REBUILD, "RUNNING"),
        _stream(STREAM, "NULL"),
        _stream("paused", "1.0"),
        "INSERT INTO redrive.dead_entries (org, stream, generation, position, run_id)"
        f" VALUES ('{OWNER}', '{STREAM}', 1, '{'0' * 32}', '{RUN}')",
        "INSERT INTO redrive.outbox (topic, org, key, version, reference, token, available_at, created_at)"
        f" VALUES ('topic', '{OWNER}', 'key', 1, '{{}}', 1, 1.0, 1.0)",
        _idempotent(KEY, "processing"),
        _idempotent(ENDED_KEY, "completed"),
        "INSERT INTO redrive.users (id, name, org, created_at, created_by)"
        f" VALUES ('{USER}', 'ana', '{OWNER}', 1.0, 'test')",
        "INSERT INTO redrive.memberships (org, user_id, role, active, version, created_at, created_by,"
        f" updated_at) VALUES ('{OWNER}', '{USER}', 'OWNER', 1, 1, 1.0, 'test', 1.0)",
        "INSERT INTO redrive.one_time_tokens (hash, kind, user_id, body, created_at, created_by, expires_at)"
        f" VALUES ('link', 'link', '{USER}', '{{}}', 1.0, 'ana', 9e9)",
        "INSERT INTO redrive.api_keys (id, org, name, role, hash, created_at, created_by)"
        f" VALUES ('{API_KEY}', '{OWNER}', 'ci', 'OWNER', 'hash', 1.0, 'test')",
    ):
        await ask(database, text)


def _event(event_id: str, dedupe_key: str) -> str:
    return (
        "INSERT INTO redrive.events (id, org, stream, type, dedupe_key, generation, position, payload,"
        f" stored_at) VALUES ('{event_id}', '{OWNER}', '{STREAM}', 'paid', '{dedupe_key}', 1, '{event_id}',"
        " '{}', 1.0)"
    )


def _rebuild(rebuild_id: str, state: str) -> str:
    start, end = f"1, '{'0' * 32}', '{'0' * 32}'", f"1, '{'f' * 32}', '{'f' * 32}'"
    times = "1.0, 1.0, 1.0, 1.0"
    return (
        "INSERT INTO redrive.rebuilds (id, org, stream, projector, version, state, types, only_missing,"
        " max_failures, total, seen, started, skipped, reason, created_by, created_at, updated_at,"
        " resumed_at, released_at, generation, position, event_id, end_generation, end_position,"
        " end_event_id) VALUES"
        f" ('{rebuild_id}', '{OWNER}', 'rebuilt', 'invoice', 1, '{state}', '[]', 0, 1, 1, 0, 0, 0,"
        f" '', 'ana', {times}, {start}, {end})"
    )


def _stream(name: str, paused_at: str) -> str:
    return (
        "INSERT INTO redrive.streams (org, name, generation, identity, last_position, reader, reader_token,"
        " reader_until, paused_at, stored, duplicates, dead, taken_over, gaps) VALUES"
        f" ('{OWNER}', '{name}', 1, 'old', '{'0' * 32}', 'r', 1, 1.0, {paused_at}, 0, 0, 0, 0, '[]')"
    )


def _idempotent(key: str, status: str) -> str:
    return (
        "INSERT INTO redrive.idempotency_keys (org, domain, user_id, key, status, request_hash, token,"
        f" lease_expires_at, expires_at, created_at, updated_at) VALUES ('{OWNER}', 'http', '{USER}',"
        f" '{key}', '{status}', 'hash', 1, 1.0, 1.0, 1.0, 1.0)"
    )


class Undone(Exception):
    """Rolls a transaction back."""


async def reached(database: Database, name: str, org: str) -> bool:
    """Return whether the statement returns or changes anything for the org; roll it back afterwards."""
    row = SimpleNamespace(**{**COMMON, **TRESPASSES[name], "org": org})
    with suppress(Undone):
        async with database.transaction() as session:
            before = await tables(session)
            rows = await session.fetch_many(statement(*name.split(".")), [row])
            answer = _tells(name, rows) or await tables(session) != before
            raise Undone
    return answer


def _tells(name: str, rows: Sequence[Row]) -> bool:
    """Zeros and nulls reveal nothing. Some statements repeat the requested name in the first column."""
    return any(any(tuple(row)[1:] if name in ("groups.replays", "groups.records") else row) for row in rows)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["sqlite", "postgres"])
async def settled(request: pytest.FixtureRequest, tmp_path_factory: Any) -> AsyncIterator[Database]:
    """Set up once for each database: no test changes the data."""
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("trespassing") / "redrive.db"
        async with migrated(SqliteDatabase(str(path), durable=False)) as sqlite:
            await settle_owner(sqlite)
            yield sqlite
    else:
        async with on_postgres(
            request.getfixturevalue("live_postgres"), request.getfixturevalue("schemas")
        ) as postgres:
            await settle_owner(postgres)
            yield postgres


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", TRESPASSES)
async def test_data_of_another_org_does_not_exist_w13(settled: Database, name: str) -> None:
    assert await reached(settled, name, STRANGER) is (name == INVERSE)
    assert await reached(settled, name, OWNER) is (name != INVERSE)


def test_every_statement_is_tried_or_says_why_not() -> None:
    known = {f"{module}.{name}" for module in MODULES for name in statements(module)}

    assert known == {*TRESPASSES, *EXCEPTIONS}
    assert not TRESPASSES.keys() & EXCEPTIONS.keys()
