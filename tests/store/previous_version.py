"""A worker of the previous version that keeps running after a migration.

`statements_16.json` has every statement that workers and servers of the baseline send, rendered for both
databases. `python -m tests.store.previous_version` writes the file from the present code: run it for each
release, so that the tests of the next migration use the workers of that release.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from tests.store.build import (
    ORG,
    advanced,
    advanced_in_place,
    attempt_row,
    buried,
    claimed,
    completed,
    enqueued,
    holder,
    parked,
    places,
    rescheduled,
    step_row,
)
from tests.store.version_0_1 import stored_statement

from redrive.model.claim import Claim
from redrive.model.replay import Mode, ReplayState
from redrive.model.step import AttemptRecord
from redrive.store.database import Database
from redrive.store.leases import Holder, Leases, Renewal
from redrive.store.postgres import PostgresDatabase
from redrive.store.record import Record
from redrive.store.replays import NewReplay, Settlement
from redrive.store.rows import read_rows
from redrive.store.statement import SqlQuery, Statement, statements
from redrive.store.store import Store

SNAPSHOT = Path(__file__).with_name("statements_16.json")
_NOT_OF_WORKERS = {"drain", "inspection", "migration", "postgres_condition", "shared", "verification"}
"""Modules whose statements only `redrive migrate`, `doctor` and `verify` send, all started afterwards."""

Texts = dict[str, dict[str, Any]]
"""The stored statements of a module, by name."""


def write() -> None:
    made = {module: _texts(module) for module in _modules()}
    SNAPSHOT.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def _modules() -> list[str]:
    found = (files("redrive.store") / "sql").iterdir()
    return sorted({file.name.split(".")[0] for file in found} - _NOT_OF_WORKERS)


def _texts(module: str) -> Texts:
    import_module(f"redrive.store.{module}")
    return {
        name: {"sqlite": _stored(statement.sqlite), "postgres": _stored(statement.postgres)}
        for name, statement in sorted(statements(module).items())
    }


def _stored(query: SqlQuery) -> dict[str, Any]:
    return {
        "text": query.text,
        "names": list(query.names),
        "timed": query.timed,
        "arrays": sorted(query.arrays),
        "then": None if query.then is None else _stored(query.then),
    }


def previous_statements() -> dict[str, dict[str, Statement]]:
    """The statements of the previous version, by module and name."""
    stored: dict[str, Texts] = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    return {
        module: {name: stored_statement(name, both) for name, both in texts.items()}
        for module, texts in stored.items()
    }


@contextmanager
def previous_version() -> Iterator[set[str]]:
    """Let the store send the statements of the previous version. Yields the names of those that it sends."""
    sent: set[str] = set()
    changed = {module: statements(module).__dict__ for module in previous_statements()}
    present = {module: place["_statements"] for module, place in changed.items() if "_statements" in place}
    for module, texts in previous_statements().items():
        changed[module]["_statements"] = _Watched(texts, sent)
    AttemptRecord.explanation = "an attempt of the previous version"  # type: ignore[attr-defined]
    claim, Leases.claim = Leases.claim, _claim_everything  # type: ignore[method-assign,assignment]
    try:
        yield sent
    finally:
        del AttemptRecord.explanation  # type: ignore[attr-defined]
        Leases.claim = claim  # type: ignore[method-assign]
        for module, place in changed.items():
            del place["_statements"]
            if module in present:
                place["_statements"] = present[module]


async def _claim_everything(leases: Leases, queue: str, most: int, holder: Holder) -> list[Claim]:
    """Claim like a worker of the previous version, which does not say which workflows it knows."""
    parameters = {"queue": queue, "most": most, "floor": float("-inf"), "workflows": None, "without": None}
    rows = await leases._session.fetch(statements("leases")["claim"], parameters | holder._asdict())
    return read_rows(Claim, rows)


class _Watched(dict[str, Statement]):
    """Statements that record which of them the store uses."""

    def __init__(self, texts: dict[str, Statement], sent: set[str]) -> None:
        super().__init__(texts)
        self._sent = sent

    def __getitem__(self, name: str) -> Statement:
        self._sent.add(name)
        return super().__getitem__(name)


async def prepare_all(database: Database) -> None:
    """Let the database check every statement of the previous version, without executing it."""
    for texts in previous_statements().values():
        for statement in texts.values():
            if isinstance(database, PostgresDatabase):
                async with database._borrowed() as connection:
                    text = database._qualified(statement.postgres.text)
                    await database._call(connection.prepare, text)
            else:
                await database.fetch(_explained(statement.sqlite), dict.fromkeys(statement.sqlite.names))


def _explained(query: SqlQuery) -> Statement:
    explained = SqlQuery(query.name, f"EXPLAIN {query.text}", query.names, query.timed)
    return Statement(explained, query)


async def live(store: Store) -> None:
    """Let runs succeed, go through a workflow, be retried, held, cancelled, lost, buried and replayed."""
    await store.limits.heartbeat("worker 1", "v1", "[]", 4, 0, "running")
    await _succeed(store)
    await _go_through_a_workflow(store)
    await _be_retried(store)
    await _be_held(store)
    await _be_cancelled(store)
    await _be_lost(store)
    await _be_buried_and_replayed(store)
    await store.limits.heartbeat("worker 1", "v1", "[]", 4, 0, "stopped")


async def _claim(store: Store) -> Claim:
    [claim] = await store.leases.claim("default", 9, holder())
    return claim


async def _end(store: Store, claim: Claim) -> None:
    assert places(await store.records.record([Record(completed(claim))])) == {claim.id: "ended"}


async def _rows(store: Store, module: str, name: str, **parameters: Any) -> Sequence[Sequence[Any]]:
    """Fetch rows without reading them into a class, which has the fields of the present version."""
    return await store.database.fetch(statements(module)[name], parameters)


async def _succeed(store: Store) -> None:
    claim = await claimed(store, idempotency_key="k", request_hash="h")
    assert await store.leases.adopt(claim.token, "worker 1") == [claim]
    renewal = Renewal(claim.id, claim.token, 60.0)
    assert await store.leases.renew([renewal]) == {(claim.id, claim.token): True}
    await _end(store, claim)
    assert await enqueued(store, idempotency_key="k", request_hash="h") == [claim.id]
    assert await store.runs.outcome(claim.id, ORG) == ("SUCCESS", '"done"')


async def _go_through_a_workflow(store: Store) -> None:
    claim = await claimed(store)
    recorded = await store.records.record([Record(advanced_in_place(claim), step=step_row(claim))])
    assert places(recorded) == {claim.id: "leased"}
    second = (await store.leases.adopt(claim.token, claim.worker or ""))[0]
    recorded = await store.records.record([Record(advanced(second), step=step_row(second))])
    assert places(recorded) == {claim.id: "ready"}
    await _end(store, await _claim(store))
    assert len(await store.runs.steps(claim.id, ORG)) == 2


async def _be_retried(store: Store) -> None:
    claim = await claimed(store)
    await store.records.record([Record(rescheduled(claim, delay=-1.0), attempt_row(claim))])
    assert await store.leases.promote(9) == ["default"]
    await _end(store, await _claim(store))
    assert len(await _rows(store, "runs", "attempts", id=claim.id, org=ORG)) == 1


async def _be_held(store: Store) -> None:
    claim = await claimed(store)
    assert places(await store.records.record([Record(parked(claim))])) == {claim.id: "held"}
    assert len(await store.limits.release("breaker:mail", 9)) == 1
    await _end(store, await _claim(store))


async def _be_cancelled(store: Store) -> None:
    [waiting] = await enqueued(store, delay=3600.0)
    await store.runs.cancel(waiting, ORG)
    assert (await store.runs.get(waiting, ORG)).state == "CANCELLED"
    claim = await claimed(store)
    await store.runs.cancel(claim.id, ORG)
    assert await store.leases.cancelling("worker 1") == [(claim.id, claim.token)]
    await _end(store, claim)


async def _be_lost(store: Store) -> None:
    claim = await claimed(store, ttl=-1.0)
    [lost] = await store.leases.reclaim(holder().token, 60.0, 9)
    assert lost.id == claim.id
    assert await store.records.record([Record(completed(claim))]) == {}
    await _end(store, lost)


async def _be_buried_and_replayed(store: Store) -> None:
    claim = await claimed(store)
    letter_id = await buried(store, claim)
    replay = NewReplay(
        id="replay",
        org=ORG,
        letter_id=letter_id,
        run_id=claim.id,
        step_index=0,
        from_step=0,
        mode=Mode.FROM_STEP,
        automatic=False,
        requested_by="ana",
        reason="fixed",
    )
    async with store.database.transaction() as session:
        assert (await store.replays.begin(session, [replay])).replays == (replay,)
    again = await _claim(store)
    settlement = Settlement(again.id, 0, ReplayState.SUCCEEDED)
    assert await store.records.record([Record(completed(again), settlement=settlement)])
    [letter] = await _rows(store, "dead_letters", "get", id=letter_id, org=ORG)
    assert "RESOLVED" in tuple(letter)


if __name__ == "__main__":
    write()
