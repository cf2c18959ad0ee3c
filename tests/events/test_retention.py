"""Retention of stored events: by age and type, never while work is unfinished."""

from __future__ import annotations

from typing import Any

import pytest
from tests.events.conftest import Site
from tests.events.test_recording import URL, score, work_off
from tests.store.build import ask

from redrive import Redrive
from redrive.errors import InvalidValueError
from redrive.events import Event
from redrive.events.retention import EventRetention
from redrive.parts import parts_of

BATCH = 100
DAY = 86_400.0


class Aging:
    """An application whose stream keeps events for a day, and whose projector fails for "broken" payloads."""

    def __init__(self, app: Redrive, **options: Any) -> None:
        self.app = app
        self.stream = app.stream("scores", URL, **options)

        @self.stream.projector("qscore", max_attempts=1)
        async def qscore(event: Event) -> None:
            if event.payload == "broken":
                raise ValueError("the projection is broken")

    async def age(self, days: float) -> None:
        await ask(
            parts_of(self.app).database,
            "UPDATE redrive.events SET stored_at = stored_at - :seconds",
            seconds=days * 86_400.0,
        )

    async def remove(self, most: int = BATCH) -> bool:
        parts = parts_of(self.app)
        return await EventRetention(parts.store, parts.declared.streams).remove_expired(most)

    async def keys(self, org: str = "default") -> list[str]:
        return sorted(event.dedupe_key for event in (await self.app.events(org=org).find()).events)


async def test_old_events_are_removed_with_their_projections(site: Site) -> None:
    aging = Aging(site.app(), retention=DAY)
    await aging.app.events().record("scores", [score(1), score(2)])
    await work_off(aging.app)
    assert not await aging.remove()
    await aging.age(2)
    await aging.app.events().record("scores", [score(3)])

    assert not await aging.remove()

    assert await aging.keys() == ["score-3"]
    assert await ask(parts_of(aging.app).database, "SELECT count(*) FROM redrive.projections") == [(1,)]
    [again] = await aging.app.events().record("scores", [score(1)])
    assert again.is_new


async def test_events_are_removed_in_batches(site: Site) -> None:
    aging = Aging(site.app(), retention=DAY)
    await aging.app.events().record("scores", [score(number) for number in range(5)])
    await work_off(aging.app)
    await aging.age(2)

    assert await aging.remove(2)
    assert len(await aging.keys()) == 3
    assert await aging.remove(2)
    assert not await aging.remove(2)
    assert await aging.keys() == []


async def test_types_have_their_own_retention(site: Site) -> None:
    aging = Aging(site.app(), retention={"score.kept": 100 * DAY, "score.b*": DAY, "score.*": 3 * DAY})
    types = {1: "score.kept", 2: "score.brief", 3: "score.changed"}
    await aging.app.events().record("scores", [score(number, type=name) for number, name in types.items()])
    await work_off(aging.app)
    await aging.age(2)
    await aging.remove()
    assert await aging.keys() == ["score-1", "score-3"]
    await aging.age(2)
    await aging.remove()
    assert await aging.keys() == ["score-1"]


async def test_without_a_retention_events_are_kept(site: Site) -> None:
    aging = Aging(site.app())
    await aging.app.events().record("scores", [score(1)])
    await work_off(aging.app)
    await aging.age(10_000)

    assert not await aging.remove()
    assert await aging.keys() == ["score-1"]


async def test_an_event_with_unfinished_work_is_kept(site: Site) -> None:
    """A queued run, a live dead letter, and a projection that waits for an earlier entry."""
    aging = Aging(site.app(), retention=DAY)
    await aging.app.events().record("scores", [score(1, payload="broken"), score(2)])
    await work_off(aging.app)
    [waiting] = await aging.app.events().record("scores", [score(3)])
    await work_off(aging.app)
    await ask(
        parts_of(aging.app).database,
        "UPDATE redrive.projections SET waits = 1 WHERE event_id = :id",
        id=waiting.id,
    )
    await aging.app.events().record("scores", [score(4)])
    await aging.age(2)

    await aging.remove()
    kept = await aging.keys()
    [letter] = (await aging.app.failures().list()).lines
    await aging.app.failures().resolve(letter.id, "done")
    await work_off(aging.app)
    await aging.remove()

    assert kept == ["score-1", "score-3", "score-4"]
    assert await aging.keys() == ["score-3"]


async def test_a_replayed_event_is_kept_until_its_run_has_finished(site: Site) -> None:
    aging = Aging(site.app(), retention=DAY)
    [recorded] = await aging.app.events().record("scores", [score(1)])
    await work_off(aging.app)
    await aging.age(2)
    await aging.app.events().replays.start(recorded.id)

    await aging.remove()
    kept = await aging.keys()
    await work_off(aging.app)
    await aging.remove()

    assert (kept, await aging.keys()) == (["score-1"], [])


async def test_a_stream_that_is_rebuilt_keeps_its_events(site: Site) -> None:
    aging = Aging(site.app(), retention=DAY)
    await aging.app.events().record("scores", [score(1)])
    await work_off(aging.app)
    await aging.age(2)
    rebuild = await aging.app.events().rebuilds.start("qscore", rate=0.001)

    for control in (aging.app.events().rebuilds.view, aging.app.events().rebuilds.pause):
        await control(rebuild.id)
        await aging.remove()
        assert await aging.keys() == ["score-1"]
    await aging.app.events().rebuilds.cancel(rebuild.id)
    await aging.remove()
    assert await aging.keys() == []


async def test_workers_remove_old_events(site: Site) -> None:
    aging = Aging(site.app(), retention=DAY)
    await aging.app.events().record("scores", [score(1)])
    await work_off(aging.app)
    await aging.age(2)

    assert not await aging.app.worker().maintenance.remove_expired()
    assert await aging.keys() == []


async def test_only_events_of_the_orgs_of_the_stream_are_removed_w13(site: Site) -> None:
    both = Aging(site.app(), org="acme", orgs=["globex"], retention=DAY)
    await both.app.events(org="acme").record("scores", [score(1)])
    await both.app.events(org="globex").record("scores", [score(2)])
    await work_off(both.app)
    await both.age(2)
    one = Aging(site.app(), org="acme", retention=DAY)

    await one.remove()
    assert (await one.keys("acme"), await both.keys("globex")) == ([], ["score-2"])
    await both.remove()
    assert await both.keys("globex") == []


@pytest.mark.parametrize("options", [{"retention": -1}, {"retention": {"score": "long"}}, {"retention": [1]}])
def test_a_wrong_retention_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError):
        Redrive("sqlite://:memory:", log=False).stream("scores", URL, **options)
