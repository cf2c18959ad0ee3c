"""The overview: what needs you, what heals itself, and what came in and finished."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from tests.server.admin.reading import Element, Reading, read
from tests.server.admin.test_dead_letters import healing
from tests.server.house import House
from tests.store.build import ask

from redrive.errors import RetryableError
from redrive.failures.overview import HealsItself, NeedsYou, Overview, OverviewTotals, ReplayTotals
from redrive.model.query import Count
from redrive.model.run import ENDED_RUNS
from redrive.model.statistics import Span
from redrive.parts import parts_of
from redrive.server.admin.overview import inflow_of

OVERVIEW = "/app/admin"
NONE = Count(0, False)


@pytest.fixture
async def viewer(house: House) -> httpx.AsyncClient:
    return await house.keyed("VIEWER")


def section(page: Reading, name: str) -> Element:
    [found] = page.find("section", aria_labelledby=name)
    return found


def seen(new: tuple[int, ...]) -> Overview:
    standing = OverviewTotals(NeedsYou(0, 0), HealsItself(NONE, NONE, 0, 0))
    empty = tuple(0 for _ in new)
    now = 1000.0 + len(new) * 300.0 - 60.0
    return Overview(
        *(Span.HOUR, now, 1000.0, 300.0, standing, None, new, empty, ReplayTotals(0, 0)),
        dict.fromkeys(ENDED_RUNS, empty),
    )


async def test_a_new_installation_shows_that_nothing_is_broken_and_how_to_start(
    house: House, viewer: httpx.AsyncClient
) -> None:
    page = await read(viewer, OVERVIEW)
    assert "No runs yet" in page.text
    assert "app.start(charge, 7)" in page.text
    assert "No runs finished in this time range" not in page.text
    assert "All clear" in section(page, "needs-you").text
    await house.app.start("greet")
    page = await read(viewer, OVERVIEW)
    assert "app.start(charge, 7)" not in page.text
    assert "No runs finished in this time range" in page.text


async def test_needs_you_is_counted_and_links_to_the_list(house: House, viewer: httpx.AsyncClient) -> None:
    oldest = await house.dead_letter(1)
    await house.dead_letter(2)
    await house.dead_letter(3, work="order")
    page = await read(viewer, OVERVIEW)
    needs = section(page, "needs-you")
    assert "3 dead letters need attention" in needs.text
    assert re.search(r"Still happening 3 new since \d\d:\d\d", needs.text)
    assert "3 open" in needs.text
    assert {"/app/admin/dlq?q=is:needs-you", "/app/admin/dlq?q=is:unscheduled"} <= set(page.links)
    assert f"/app/admin/dlq/{oldest}" in page.links
    [title, *_] = page.find("a", class_="title clamp")
    assert title.attributes["href"].startswith("/app/admin/dlq/groups/v1")
    assert "redrive status" in [each.attributes.get("data-copy") for each in page.find("button")]


async def test_heals_itself_is_separate_from_that(house: House, viewer: httpx.AsyncClient) -> None:
    @house.app.task(max_attempts=3)
    async def flaky(thing: Any = None) -> None:
        raise RetryableError("the disk is full")

    @house.app.task(breaker="bank")
    async def pay(thing: Any = None) -> None: ...

    await house.app.breakers().force("bank", "OPEN", reason="they are away")
    for work in ("flaky", "pay", "pay"):
        await house.app.start(work)
    await house.work()
    page = await read(viewer, OVERVIEW)
    heals = section(page, "heals-itself").text
    assert heals.startswith("Heals itself 3 will continue automatically")
    assert "2 on hold" in heals
    assert "1 retrying" in heals
    assert "All clear" in section(page, "needs-you").text
    assert {"/app/admin/runs?q=is:held", "/app/admin/runs?q=is:waiting%20is:running"} <= set(page.links)
    assert "bank 2 on hold Open" in section(page, "breakers-title").text


async def test_plots_have_a_table_twin_and_the_span_is_chosen(
    house: House, viewer: httpx.AsyncClient
) -> None:
    await house.dead_letter()
    for span, columns in (("1h", 12), ("6h", 36), ("24h", 48), ("7d", 84)):
        page = await read(viewer, f"{OVERVIEW}?span={span}")
        [chosen] = page.find("a", aria_current="true")
        assert chosen.text == span
        assert len(page.find("g", class_="column")) == 2 * columns
        [table] = page.find("table", aria_labelledby="letters-title")
        assert table.text.endswith("1 0")
    assert (await viewer.get(f"{OVERVIEW}?span=2h")).status_code == 422


async def test_replays_in_progress_are_shown_with_how_far_they_are(
    house: House, viewer: httpx.AsyncClient
) -> None:
    letters = [await house.dead_letter(each) for each in range(2)]
    failures = house.app.failures(by="carla")
    plan = await failures.plans.create(ids=letters, reason="the bank is back")
    assert not (await read(viewer, OVERVIEW)).find("section", id="active-replays")
    await failures.plans.start(plan.operation_id)
    page = await read(viewer, OVERVIEW)
    [shown] = page.find("section", id="active-replays")
    assert "the bank is back" in shown.text
    assert "0 of 2 finished" in shown.text
    assert f"/app/admin/replays/{plan.operation_id}" in page.links


async def test_stopped_work_needs_you_too(house: House, viewer: httpx.AsyncClient) -> None:
    await house.app.start("greet")
    needs = section(await read(viewer, OVERVIEW), "needs-you").text
    assert "0 dead letters need attention, but work is blocked No worker runs are ready," in needs
    await house.app.queues().pause("default", reason="they are away")
    needs = section(await read(viewer, OVERVIEW), "needs-you").text
    assert "1 queue paused with runs ready: default" in needs


async def test_a_paused_bulk_replay_needs_you(house: House, viewer: httpx.AsyncClient) -> None:
    letter = await house.dead_letter()
    operations = house.app.failures(by="carla").plans
    plan = await operations.create(ids=[letter], reason="the bank is back")
    await operations.start(plan.operation_id)
    assert "is paused" not in section(await read(viewer, OVERVIEW), "needs-you").text
    await operations.pause(plan.operation_id)
    needs = section(await read(viewer, OVERVIEW), "needs-you").text
    assert "1 replay paused: the bank is back" in needs


async def test_a_bulk_replay_that_stopped_automatically_shows_why(
    house: House, viewer: httpx.AsyncClient
) -> None:
    letters = [await house.dead_letter(each) for each in range(3)]
    operations = house.app.failures(by="carla").plans
    plan = await operations.create(ids=letters, canary=1, reason="the bank is back")
    await operations.start(plan.operation_id)
    await house.work()
    page = await read(viewer, OVERVIEW)
    stopped = await operations.view(plan.operation_id)
    assert stopped.stopped_because
    assert "1 replay stopped automatically: 1 of 1 item failed" in section(page, "needs-you").text
    [lead] = [each for each in page.find("a") if each.text == "1 replay"]
    assert lead.attributes["href"] == f"/app/admin/replays/{plan.operation_id}"


async def test_letters_that_will_be_redriven_do_not_need_you_on_any_page(
    house: House, viewer: httpx.AsyncClient
) -> None:
    healing(house)
    await house.dead_letter()
    for number in range(2):
        await house.dead_letter(number, work="flake")
    page = await read(viewer, OVERVIEW)
    assert "1 dead letter needs attention" in section(page, "needs-you").text
    [badge] = page.find("span", class_="badge")
    assert badge.text == "1"
    assert [each.text for each in page.find("td", data_label="Needs you")] == ["1"]
    for query, number in (("is:needs-you", 1), ("is:unscheduled", 1), ("is:scheduled", 2)):
        assert f"/app/admin/dlq?q={query}" in page.links
        listed = await read(viewer, f"/app/admin/dlq?q={query}&view=flat")
        assert len(listed.find("td", data_label="Age")) == number


async def test_ignored_failures_are_listed_without_emphasis(house: House, viewer: httpx.AsyncClient) -> None:
    _without_paper(house)
    failures = house.app.failures(by="carla")
    for number in range(2):
        letter = await house.dead_letter(number, work="label")
    await house.dead_letter()
    assert "ignored" not in section(await read(viewer, OVERVIEW), "needs-you").text
    await failures.groups.ignore((await failures.view(letter)).fingerprint, "later")
    page = await read(viewer, OVERVIEW)
    needs = section(page, "needs-you").text
    assert "3 dead letters need attention" in needs
    assert "2 of these belong to ignored failure groups" in needs
    assert [each.text for each in page.find("td", data_label="Needs you")] == ["1"]


async def test_the_age_of_ready_work_is_the_same_on_the_page_of_queues(
    house: House, viewer: httpx.AsyncClient
) -> None:
    """The age covers all priorities, not only the highest."""
    for priority, seconds in ((0, 7300.0), (9, 60.0)):
        run = await house.app.start("greet", priority=priority)
        older = "UPDATE redrive.runs SET submitted_at = submitted_at - :seconds WHERE id = :id RETURNING id"
        await ask(parts_of(house.app).database, older, seconds=seconds, id=run.id)
    assert "default 2 h 2 0" in section(await read(viewer, OVERVIEW), "queues-title").text
    [queue] = (await read(viewer, "/app/admin/queues")).find("td", data_label="Oldest queued")
    assert queue.text == "2 h 2 min"


async def test_the_failures_with_the_most_letters_that_need_you_come_first(
    house: House, viewer: httpx.AsyncClient
) -> None:
    _without_paper(house)
    failures = house.app.failures(by="carla")
    for number in range(3):
        await failures.resolve(await house.dead_letter(number), "done")
    await house.dead_letter(4)
    for number in range(2):
        await house.dead_letter(number, work="label")
    page = await read(viewer, OVERVIEW)
    assert [each.text for each in page.find("td", data_label="Needs you")] == ["2", "1"]
    assert [each.text for each in page.find("td", data_label="All time")] == ["2", "4"]


async def test_others_see_their_own(house: House) -> None:
    await house.dead_letter()
    await house.organization("acme")
    page = await read(await house.keyed("OWNER", "acme"), OVERVIEW)
    assert "All clear" in page.text
    assert "declined" not in page.text


def test_it_is_still_happening_or_quiet_since_the_end_of_a_part_of_the_time() -> None:
    assert inflow_of(seen((0, 4, 2, 1))) == (3, 1600.0, 2200.0)
    assert inflow_of(seen((0, 4, 0, 0))) == (0, 1600.0, 1600.0)
    assert inflow_of(seen((0, 0, 0, 0))) == (0, 1600.0, None)


def _without_paper(house: House) -> None:
    """Register `label`, which fails differently from `charge`."""

    @house.app.task(max_attempts=1)
    async def label(order: Any = None) -> None:
        raise LookupError("the printer has no paper")


async def test_two_numbers_that_differ_have_two_names(house: House, viewer: httpx.AsyncClient) -> None:
    """A replay that fails ends its run again, without a new dead letter: "78" and "68" disagreed."""
    letter = await house.dead_letter()
    await house.app.failures().replay(letter)
    await house.work()
    page = await read(viewer, OVERVIEW)
    assert "Ended as dead letter 2" in page.text
    assert "New dead letters, 24h 1" in page.text
    assert not re.search(r"(?<!New )(?<!Closed )(?<!All )Dead letters \d{2,}", page.text)


async def test_heals_itself_is_counted_in_one_way_under_that_name(
    house: House, viewer: httpx.AsyncClient
) -> None:
    """The overview counts runs too. The list of dead letters can't, so its number has another name."""
    healing(house)
    await house.dead_letter(work="flake")
    heals = section(await read(viewer, OVERVIEW), "heals-itself").text
    assert heals.startswith("Heals itself 1 will continue automatically")
    listed = (await read(viewer, "/app/admin/dlq")).text
    assert "Replaying or due 1" in listed
    assert "Heals itself" not in listed
