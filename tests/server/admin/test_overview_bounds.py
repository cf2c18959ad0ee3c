"""The overview shows a rare problem even when another one fills the list."""

from __future__ import annotations

from typing import Any

import pytest
from tests.server.admin.reading import read
from tests.server.house import House

from redrive.errors import FinalError
from redrive.server.admin import overview as overview_page

OVERVIEW = "/app/admin"


async def test_a_paused_bulk_replay_is_seen_behind_many_newer_plans(small_house: House) -> None:
    letter, other = await small_house.dead_letter(1), await small_house.dead_letter(2)
    operations = small_house.app.failures(by="carla").plans
    paused = (await operations.create(ids=[letter], reason="the bank is back")).operation_id
    await operations.start(paused)
    await operations.pause(paused)
    for _ in range(51):
        await operations.create(ids=[other])
    page = await read(await small_house.keyed("VIEWER"), OVERVIEW)
    assert "1 replay paused: the bank is back" in page.text
    assert f"/app/admin/replays/{paused}" in page.links


async def test_a_replay_that_needs_you_is_shown_behind_running_ones(small_house: House) -> None:
    letters = [await small_house.dead_letter(each) for each in range(overview_page.REPLAYS + 1)]
    operations = small_house.app.failures(by="carla").plans
    started = [(await operations.create(ids=[each])).operation_id for each in letters]
    for each in started:
        await operations.start(each)
    await operations.pause(started[0])
    page = await read(await small_house.keyed("VIEWER"), OVERVIEW)
    assert f"/app/admin/replays/{started[0]}" in page.links


@pytest.mark.parametrize(("pages", "task"), [(10, "refund"), (1, "charge")])
async def test_the_failure_with_the_most_open_letters_is_found_behind_more_frequent_ones(
    small_house: House, monkeypatch: pytest.MonkeyPatch, pages: int, task: str
) -> None:
    """The overview searches this many pages for it."""

    @small_house.app.task
    async def refund(order: Any) -> None:
        raise FinalError("no account")

    frequent = [await small_house.dead_letter(each) for each in range(3)]
    failures = small_house.app.failures(by="carla")
    await failures.resolve(frequent[1:])
    for _ in range(2):
        await small_house.dead_letter(work="refund")
    for name, number in (("GROUPS", 1), ("LOOKED_AT", 1), ("PAGES", pages)):
        monkeypatch.setattr(overview_page, name, number)
    assert [each.group.task for each in await overview_page._top(failures)] == [task]
