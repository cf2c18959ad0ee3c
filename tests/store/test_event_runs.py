"""Further executions of projectors: fenced by the former run, and by what retention may remove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.events.conftest import Site
from tests.events.conftest import site as site  # a fixture
from tests.events.test_recording import URL, score, work_off
from tests.store.build import ask

from redrive import Redrive
from redrive.events import Event
from redrive.parts import parts_of
from redrive.store.event_runs import EventKey, ExpiredEvents, NextRun
from redrive.store.statement import statement
from redrive.store.store import Store

NEW = "0" * 31 + "9"


class Projected:
    """Stored events, each with one projection."""

    def __init__(self, app: Redrive) -> None:
        self.app = app
        stream = app.stream("scores", URL)

        @stream.projector("qscore", max_attempts=1)
        async def qscore(event: Event) -> None:
            if event.payload == "broken":
                raise ValueError("the projection is broken")

    @property
    def store(self) -> Store:
        return parts_of(self.app).store

    async def record(self, payload: Any = None, *, work: bool = True) -> NextRun:
        """Record an event, and return what would follow its run."""
        [event] = await self.app.events().record("scores", [score(1, payload=payload)])
        if work:
            await work_off(self.app)
        [record] = await self.app.events().projections(event.id)
        return NextRun(
            event_id=event.id,
            projector="qscore",
            version=1,
            org="default",
            old_run_id=record.run_id,
            run_id=NEW,
        )

    async def follow(self, run: NextRun) -> set[str]:
        async with self.store.database.transaction() as session:
            return await self.store.event_runs.follow(session, [run])

    async def remove(self, event_id: str) -> Sequence[Any]:
        async with self.store.database.transaction() as session:
            return await session.fetch_many(
                statement("event_runs", "remove"), [EventKey(event_id, "default")]
            )


async def test_a_run_follows_the_run_that_the_caller_has_seen(site: Site) -> None:
    projected = Projected(site.app())
    run = await projected.record()

    assert await projected.follow(run._replace(old_run_id="0" * 31 + "8")) == set()
    assert await projected.follow(run._replace(org="another")) == set()
    assert await projected.follow(run) == {NEW}
    assert await projected.follow(run) == set()


@pytest.mark.parametrize("what", ["unfinished", "dead", "waiting"])
async def test_no_run_follows_one_that_has_not_settled(site: Site, what: str) -> None:
    projected = Projected(site.app())
    run = await projected.record("broken" if what == "dead" else None, work=what != "unfinished")
    if what == "waiting":
        await ask(projected.store.database, "UPDATE redrive.projections SET waits = 1")

    assert await projected.follow(run) == set()
    assert await projected.remove(run.event_id) == []


async def test_a_settled_event_is_removed_once(site: Site) -> None:
    projected = Projected(site.app())
    run = await projected.record()

    assert len(await projected.remove(run.event_id)) == 1
    assert await projected.remove(run.event_id) == []


async def test_retention_passes_over_events_that_a_replay_has_locked(site: Site) -> None:
    """On SQLite, a transaction that writes locks the whole file."""
    if site.url.startswith("sqlite"):
        return
    projected = Projected(site.app())
    run, other = await projected.record(), Projected(site.app())
    expired = ExpiredEvents("default", "scores", 0.0, ["score.changed"])

    async with projected.store.database.transaction() as session:
        assert await projected.store.event_runs.lock(session, [run.event_id], "default") == {run.event_id}
        assert await other.store.event_runs.remove_expired(expired, 10) == 0
    assert await other.store.event_runs.remove_expired(expired, 10) == 1
