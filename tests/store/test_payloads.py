"""Encrypted payloads on both databases: no plain text on disk, key rotation, audited reveals (M11, I9)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import pytest
from tests.servers import PostgresServer
from tests.store.build import ask, value
from tests.store.rows import HELD, LEASED, SUCCESS, put_runs, run_row

from redrive.app import Redrive
from redrive.clock import SYSTEM_CLOCK
from redrive.engine.context import Context
from redrive.engine.encryption import Encryption, KeyRotation, key_id
from redrive.engine.event_bus import EventBus
from redrive.engine.ids import Ids
from redrive.errors import InvalidValueError, NotFoundError, RunFailedError, SealedError
from redrive.failures.audit import Audit
from redrive.failures.dead_letters import DeadLetters
from redrive.model.caller import Caller
from redrive.parts import parts_of, rewire
from redrive.policy import Backoff, Immediate, RetryPolicy
from redrive.policy.redact import DEFAULT_REDACTOR
from redrive.settings import Settings, new_encryption_key
from redrive.store.database import Database
from redrive.store.postgres import PostgresDatabase
from redrive.store.sqlite import SqliteDatabase
from redrive.store.store import Store

OLD, NEW = new_encryption_key(), new_encryption_key()
ANA = Caller("default", "ana")
AGAIN = RetryPolicy(max_attempts=2, backoff=Backoff(Immediate()))
TEXTS = (
    "SELECT input FROM redrive.runs UNION ALL SELECT step_input FROM redrive.runs "
    "UNION ALL SELECT result FROM redrive.runs UNION ALL SELECT metadata FROM redrive.runs "
    "UNION ALL SELECT output FROM redrive.steps UNION ALL SELECT output FROM redrive.attempts"
)


def app_on(database: Database, *keys: str) -> Redrive:
    app = Redrive("sqlite://:memory:", settings=Settings(encryption_keys=keys or None), log=False)
    rewire(app, database.another(), parts_of(app).clock, parts_of(app).random)
    return app


@asynccontextmanager
async def at_work(app: Redrive) -> AsyncIterator[Redrive]:
    """Run a real worker on real time."""
    await app.open()
    worker = app.worker(poll_seconds=0.02, grace_seconds=2.0)
    running = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(30.0):
            yield app
            worker.stop()
            await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await app.close()


async def texts(database: Database) -> list[str]:
    return [row[0] for row in await ask(database, TEXTS) if row[0] is not None]


def defined(app: Redrive) -> Redrive:
    """Define a workflow of two steps, a task that needs a second attempt, and one that always fails."""

    @app.task
    async def fetch(given: dict[str, Any]) -> dict[str, Any]:
        return {"secret": given["password"]}

    @app.task
    async def use(given: dict[str, Any], context: Context) -> dict[str, Any]:
        return {"token": given["secret"], "found": context.results}

    @app.task(retry=AGAIN)
    async def flaky(given: dict[str, Any], context: Context) -> dict[str, Any]:
        if context.attempt == 1:
            raise ConnectionError(f"refused password={given['password']}")
        return {"token": given["password"]}

    @app.task(retry=AGAIN)
    async def broken(given: dict[str, Any]) -> None:
        raise ConnectionError(f"refused password={given['password']}")

    app.workflow("both", [fetch, use])
    app.workflow("half", [fetch, broken])
    return app


async def executed(app: Redrive, canary: str) -> str:
    """Execute each kind of work with the canary in every part, and return the id of the dead letter."""
    payload, metadata = {"password": canary}, {"api_key": canary}
    for work in ("both", "flaky"):
        run = await app.start(work, payload, metadata=metadata)
        assert (await run.result())["token"] == canary
    failed = await app.start("half", payload, metadata=metadata)
    with pytest.raises(RunFailedError):
        await failed.result()
    letter = await failed.dead_letter()
    assert letter is not None
    return letter.id


async def places(database: Database, canary: str) -> list[str]:
    """Return the database files that contain the canary: tables, indexes, write-ahead logs."""
    if isinstance(database, SqliteDatabase):
        path = Path(database.path)
        files = list(path.parent.glob(f"{path.name}*"))
    else:
        await ask(database, "CHECKPOINT")
        files = list(Path(await value(database, "SHOW data_directory")).rglob("*"))
    return [each.name for each in files if each.is_file() and canary.encode() in _content(each)]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:  # the server has removed the file meanwhile
        return b""


def _is_here(database: Database, server: PostgresServer) -> bool:
    return isinstance(database, SqliteDatabase) or "127.0.0.1" in server.url


# Nothing readable on disk


async def test_with_a_key_no_canary_reaches_the_disk(
    database: Database, live_postgres: PostgresServer
) -> None:
    """I9. The second half shows that the search would find a canary."""
    if not _is_here(database, live_postgres):
        pytest.skip("the files of a server elsewhere cannot be read")
    canary, control = uuid.uuid4().hex, uuid.uuid4().hex
    async with at_work(defined(app_on(database, NEW))) as app:
        await executed(app, canary)
    assert await places(database, canary) == []
    assert await value(database, "SELECT count(*) FROM redrive.dead_letters") == 1

    async with at_work(defined(app_on(database))) as app:
        await executed(app, control)
    assert await places(database, control)
    assert await places(database, canary) == []


async def test_a_result_that_is_recorded_within_a_transaction_of_the_task_is_sealed(
    postgres_database: PostgresDatabase, live_postgres: PostgresServer
) -> None:
    app = app_on(postgres_database, NEW)

    @app.task
    async def book(given: str, context: Context) -> dict[str, str] | None:
        connection = await asyncpg.connect(live_postgres.url)
        async with connection.transaction():
            await context.complete({"token": given}, connection=connection)
        await connection.close()
        return None

    async with at_work(app):
        assert await (await app.start(book, "canary")).result() == {"token": "canary"}
    found = await texts(postgres_database)
    assert len(found) == 2
    assert all(Encryption([NEW]).is_sealed(text) for text in found)


# Key rotation


async def rotated(database: Database, *keys: str) -> tuple[int, dict[str, int]]:
    result = await KeyRotation(Store(database), Encryption(keys), ANA).run()
    assert result.key_id == key_id(keys[0])
    return result.rewritten, result.unreadable


async def test_rotation_seals_everything_again_and_the_old_key_can_go(database: Database) -> None:
    canary = uuid.uuid4().hex
    async with at_work(defined(app_on(database, OLD))) as app:
        await executed(app, canary)
        waiting = await app.start("both", {"password": canary}, delay=3600.0)
    before = await texts(database)
    rewritten, unreadable = await rotated(database, NEW, OLD)
    after = await texts(database)
    assert (rewritten, unreadable, len(after)) == (len(before), {}, len(before))
    assert sorted(map(Encryption([NEW]).decrypt, after)) == sorted(map(Encryption([OLD]).decrypt, before))
    assert await rotated(database, NEW, OLD) == (0, {})

    async with at_work(defined(app_on(database, NEW))) as app:
        await ask(database, "UPDATE redrive.runs SET due_at = 0.0 WHERE id = :id", id=waiting.id)
        assert (await app.run(waiting.id).result())["token"] == canary


async def test_rotation_encrypts_values_stored_before_there_was_a_key(database: Database) -> None:
    async with at_work(defined(app_on(database))) as app:
        await app.start("both", {"$sealed": "look-alike"}, delay=3600.0)
        await executed(app, "canary")
    rewritten, _ = await rotated(database, NEW)
    found = await texts(database)
    assert rewritten == len(found)
    assert all(Encryption([NEW]).is_sealed(text) for text in found)
    assert '{"$sealed":"look-alike"}' in [Encryption([NEW]).decrypt(text) for text in found]


async def test_rotation_goes_through_more_than_one_batch_and_can_be_started_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.engine.encryption.BATCH_SIZE", 2)
    async with at_work(defined(app_on(database, OLD))) as app:
        for _ in range(3):
            await executed(app, "canary")
    found = await texts(database)
    [first] = await ask(database, "SELECT id, input FROM redrive.runs ORDER BY id LIMIT 1")
    again = Encryption([NEW]).encrypt(Encryption([OLD]).decrypt(first[1]))
    await ask(database, "UPDATE redrive.runs SET input = :input WHERE id = :id", input=again, id=first[0])
    assert await rotated(database, NEW, OLD) == (len(found) - 1, {})


async def test_rotation_leaves_values_it_cannot_decrypt_and_names_the_missing_key(database: Database) -> None:
    async with at_work(defined(app_on(database, OLD))) as app:
        await app.start("both", {}, delay=3600.0)
        await app.start("both", {}, delay=3600.0)
    await ask(
        database,
        "UPDATE redrive.runs SET input = :damaged "
        "WHERE id = (SELECT id FROM redrive.runs ORDER BY id LIMIT 1)",
        damaged=f'{{"$sealed":"{key_id(NEW)}x:AAAA"}}',
    )
    before = await texts(database)
    assert await rotated(database, NEW) == (0, {key_id(OLD): 1, f"{key_id(NEW)}x": 1})
    assert await texts(database) == before


async def test_rotation_does_not_overwrite_a_concurrent_change(database: Database) -> None:
    async with at_work(defined(app_on(database, OLD))) as app:
        run = await app.start("both", {"a": 1}, delay=3600.0)
    store = Store(database)
    rotation = KeyRotation(store, Encryption([NEW, OLD]), ANA)
    [row] = await rotation._payloads.stale_runs("-", 10)
    other = Encryption([OLD]).encrypt("7")
    ended = "UPDATE redrive.runs SET input = :input, result = :input, place = 'ended', ended_at = 1.0"
    await ask(database, ended, input=other)
    await rotation._payloads.rewrite_runs([rotation._re_encrypt_run(row)])
    assert await ask(database, "SELECT id, input, result FROM redrive.runs") == [(run.id, other, other)]


WAITING = {"place": "waiting", "due_at": 9e9}


@pytest.mark.parametrize(
    "kind", [{}, WAITING, HELD, {"place": "alone"}, LEASED, {**SUCCESS, "result": "sealed"}]
)
async def test_rotation_seals_payloads_again_wherever_the_run_is(
    database: Database, kind: dict[str, Any]
) -> None:
    names = ["input", "step_input", "metadata", *(["result"] if "result" in kind else [])]
    sealed = {name: Encryption([OLD]).encrypt(f'"{name}"') for name in names}
    [run_id] = await put_runs(database, [run_row(**{**kind, **sealed})])
    before = await ask(database, "SELECT place, state, epoch, due_at, held_by FROM redrive.runs")

    assert await rotated(database, NEW, OLD) == (len(names), {})

    [found] = await ask(database, f"SELECT {', '.join(names)} FROM redrive.runs WHERE id = :id", id=run_id)
    assert list(map(Encryption([NEW]).decrypt, found)) == [f'"{name}"' for name in names]
    assert await ask(database, "SELECT place, state, epoch, due_at, held_by FROM redrive.runs") == before


@pytest.mark.parametrize("name", ["step_input", "metadata", "result"])
async def test_rotation_does_not_overwrite_any_concurrently_changed_payload(
    database: Database, name: str
) -> None:
    sealed = {each: Encryption([OLD]).encrypt("1") for each in ("input", "step_input", "metadata", "result")}
    await put_runs(database, [run_row(**{**SUCCESS, **sealed})])
    rotation = KeyRotation(Store(database), Encryption([NEW, OLD]), ANA)
    [row] = await rotation._payloads.stale_runs("-", 10)
    other = Encryption([OLD]).encrypt("7")
    await ask(database, f"UPDATE redrive.runs SET {name} = :other", other=other)

    await rotation._payloads.rewrite_runs([rotation._re_encrypt_run(row)])

    [found] = await ask(database, f"SELECT {', '.join(sealed)} FROM redrive.runs")
    kept = dict(zip(sealed, found, strict=True))
    assert kept.pop(name) == other
    assert all(Encryption([NEW]).decrypt(text) == "1" for text in kept.values())


async def test_rotation_is_in_the_audit_and_needs_a_key(database: Database) -> None:
    await rotated(database, NEW)
    page = await Audit(Store(database), ANA).list()
    assert [(each.action, each.actor, each.detail["stage"]) for each in page.entries] == [
        ("keys.rotated", "ana", "finished"),
        ("keys.rotated", "ana", "begun"),
    ]
    assert page.entries[0].detail == {
        "key": key_id(NEW),
        "stage": "finished",
        "rewritten": 0,
        "unreadable": {},
    }
    with pytest.raises(InvalidValueError, match="no encryption key is configured"):
        KeyRotation(Store(database), Encryption(), ANA)


# Revealing payloads


def letters(store: Store, *keys: str, caller: Caller = ANA) -> DeadLetters:
    ids = Ids(SYSTEM_CLOCK, Random(7))
    return DeadLetters(store, ids, EventBus(), DEFAULT_REDACTOR, Encryption(keys), caller)


@pytest.mark.parametrize("keys", [(), (OLD,)])
async def test_a_payload_is_revealed_with_an_entry_in_the_audit(
    database: Database, keys: tuple[str, ...]
) -> None:
    async with at_work(defined(app_on(database, *keys))) as app:
        letter_id = await executed(app, "canary")
    store = Store(database)
    revealed = await letters(store, *keys).reveal(letter_id, reason="ticket 7, password=hunter2")
    assert revealed == {"secret": "canary"}
    page = await Audit(store, ANA).list(action="dead_letter.revealed")
    [entry] = page.entries
    assert (entry.actor, entry.subjects) == ("ana", (letter_id,))
    assert entry.detail["reason"].startswith("ticket 7")
    assert "hunter2" not in repr(entry)
    assert (await Audit(store, ANA).verify()).sound


async def test_the_payload_of_a_first_step_is_the_input_of_the_run(database: Database) -> None:
    async with at_work(defined(app_on(database, OLD))) as app:
        run = await app.start("broken", {"password": "canary"})
        with pytest.raises(RunFailedError):
            await run.result()
        letter = await run.dead_letter()
    assert letter is not None
    known = letters(Store(database), OLD)
    assert await known.reveal(letter.id, reason="why") == {"password": "canary"}
    other = Encryption([OLD]).encrypt("1")
    await ask(database, "UPDATE redrive.runs SET step_index = 1, step_input = :other", other=other)
    assert await known.reveal(letter.id, reason="why") == {"password": "canary"}


async def test_a_failed_reveal_leaves_no_entry(database: Database) -> None:
    async with at_work(defined(app_on(database, OLD))) as app:
        letter_id = await executed(app, "canary")
    store = Store(database)
    for caller, letter, keys, error in (
        (Caller("other", "eve"), letter_id, (OLD,), NotFoundError),
        (ANA, "nothing", (OLD,), NotFoundError),
        (ANA, letter_id, (NEW,), SealedError),
        (ANA, letter_id, (), SealedError),
    ):
        with pytest.raises(error):
            await letters(store, *keys, caller=caller).reveal(letter, reason="why")
    for reason in ("", "  ", "x" * 2001, None):
        with pytest.raises(InvalidValueError, match="reason must"):
            await letters(store, OLD).reveal(letter_id, reason=reason)  # type: ignore[arg-type]
    assert (await Audit(store, ANA).list(action="dead_letter.revealed")).entries == []
    assert (await Audit(store, Caller("other", "eve")).list()).entries == []


async def test_nothing_is_revealed_when_the_audit_cannot_be_written(database: Database) -> None:
    async with at_work(defined(app_on(database, OLD))) as app:
        letter_id = await executed(app, "canary")
    store = Store(database)
    await ask(database, "ALTER TABLE redrive.audit RENAME TO hidden")
    shown: list[Any] = []
    with pytest.raises(Exception, match="audit"):
        shown.append(await letters(store, OLD).reveal(letter_id, reason="why"))
    assert shown == []
    assert isinstance(database, SqliteDatabase | PostgresDatabase)
