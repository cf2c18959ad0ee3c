"""The list of runs, and the page of one (P8, P9, W6, W14)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.server.admin.reading import Reading, read
from tests.server.house import House

from redrive.errors import RetryableError
from redrive.model.id import short_id
from redrive.parts import parts_of
from redrive.server.admin.runs import asked

RUNS = "/app/admin/runs"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"


@pytest.fixture
async def viewer(house: House) -> httpx.AsyncClient:
    return await house.keyed("VIEWER")


def rows(page: Reading) -> list[str]:
    """The ids of the runs that are listed, in order."""
    return [each.attributes["id"].removeprefix("run-") for each in page.find("tr", data_row="")]


async def test_the_list_says_how_each_run_stands(house: House, viewer: httpx.AsyncClient) -> None:
    failed = await house.app.start("order", 7, tags=["vip"])
    await house.work()
    later = await house.app.start("greet", delay=3600)
    page = await read(viewer, RUNS)
    assert rows(page) == [later.id, failed.id]
    [waiting, dead] = page.find("tr", data_row="")
    assert waiting.text.startswith("Waiting greet")
    assert "due in 59 min" in waiting.text or "due in 1 h" in waiting.text
    assert dead.text.startswith("Needs attention order › charge")
    assert "2 runs, newest first" in page.text
    assert f"{RUNS}/{failed.id}" in page.links
    assert "redrive run list" in [each.attributes.get("data-copy") for each in page.find("button")]


async def test_a_run_that_no_worker_knows_says_so_everywhere(house: House, viewer: httpx.AsyncClient) -> None:
    run = await house.app.start("greet")
    assert await parts_of(house.app).store.limits.hold("default", "greet", "task:greet", 9) == 1
    [row] = (await read(viewer, RUNS)).find("tr", data_row="")
    assert row.text.startswith("Unknown task greet")
    assert "no worker knows the task 'greet'" in row.text
    page = await read(viewer, f"{RUNS}/{run.id}")
    assert "No worker knows the task 'greet'. The run starts when a worker knows it" in page.text
    seen = (await viewer.get("/api/v1/overview")).json()
    assert seen["unknown_work"] == [{"held_by": "task:greet", "runs": {"number": 1, "capped": False}}]
    assert seen["heals_itself"]["total"]["number"] == 0
    overview = await read(viewer, "/app/admin")
    assert "1 run no worker knows the task 'greet'" in overview.text


async def test_a_row_and_the_title_say_which_run_it_is_and_the_row_why_it_failed(
    house: House, viewer: httpx.AsyncClient
) -> None:
    run = await house.app.start("order", 7, key=f"order-7 {EVIL[:8]}")
    await house.work()
    [row] = (await read(viewer, RUNS)).find("tr", data_row="")
    view = (await viewer.get(f"/api/v1/runs/{run.id}")).json()
    assert f"order-7 {EVIL[:8]}" in row.text
    assert view["error_line"] in row.text
    page = await read(viewer, f"{RUNS}/{run.id}")
    assert page.find("h1")[0].text.startswith(f"order order-7 {EVIL[:8]}")
    assert page.find("title")[0].text.startswith("order order-7")


async def test_a_run_that_waits_for_its_turn_names_the_run_before_it(
    house: House, viewer: httpx.AsyncClient
) -> None:
    first = await house.app.start("charge", order_key="customer-7")
    second = await house.app.start("greet", order_key="customer-7")
    page = await read(viewer, f"{RUNS}/{second.id}")
    assert "Waits for its turn: it starts when run" in page.text
    assert f"{RUNS}/{first.id}" in page.links
    assert f"customer-7: waits for run {short_id(first.id)}, 1 before it" in page.text
    listed = await read(viewer, f"{RUNS}?q=is:parked")
    assert rows(listed) == [second.id]
    assert "waits for an earlier run with the order key 'customer-7'" in listed.text
    await house.work()
    page = await read(viewer, f"{RUNS}/{first.id}")
    assert "customer-7: 1 run waits behind it until its dead letter is closed" in page.text


async def test_filters_are_queries_and_the_one_that_is_asked_is_marked(
    house: House, viewer: httpx.AsyncClient
) -> None:
    greeted, failed = await house.app.start("greet"), await house.app.start("charge")
    await house.work()
    for query, found in (("is:failed", failed.id), ("is:succeeded", greeted.id)):
        page = await read(viewer, f"{RUNS}?q={query}")
        assert rows(page) == [found]
        assert "1 run matches, newest first" in page.text
        [chosen] = page.find("a", aria_current="true")
        assert chosen.attributes["href"] == f"{RUNS}?q={query}"
        copied = [each.attributes.get("data-copy") for each in page.find("button")]
        assert f"redrive run list {query}" in copied
        assert page.find("input", name="q")[0].attributes["value"] == query


async def test_a_query_that_is_not_understood_is_told_where_it_was_typed(viewer: httpx.AsyncClient) -> None:
    page = await read(viewer, f"{RUNS}?q=workflo:order", 422)
    [problem] = page.find("p", role="alert")
    assert "unknown key 'workflo'" in problem.text
    assert "workflow" in problem.text
    [box] = page.find("input", name="q")
    assert (box.attributes["value"], box.attributes["aria-describedby"]) == ("workflo:order", "q-problem")
    assert rows(page) == []
    assert (await viewer.get(f"{RUNS}?q=&cursor=nonsense")).status_code == 422
    assert (await viewer.get(f"{RUNS}?order=oldest")).status_code == 422


async def test_where_nothing_matches_the_filter_can_be_cleared(
    house: House, viewer: httpx.AsyncClient
) -> None:
    assert "No runs yet" in (await read(viewer, RUNS)).text
    await house.app.start("greet")
    page = await read(viewer, f"{RUNS}?q=queue:nowhere")
    assert "No matches" in page.text
    assert RUNS in page.links


async def test_pages_continue_where_the_last_one_ended(house: House, viewer: httpx.AsyncClient) -> None:
    started = [each.id for each in await house.app.start_many("greet", list(range(120)))]
    page, found = await read(viewer, f"{RUNS}?q=is:live"), []
    while True:
        found += rows(page)
        onwards = page.find("a", rel="next")
        if not onwards:
            break
        assert "q=is:live" in onwards[0].attributes["href"]
        page = await read(viewer, onwards[0].attributes["href"])
    assert sorted(found) == sorted(started)
    assert page.find("a", rel="first")[0].attributes["href"] == f"{RUNS}?q=is:live"


async def test_runs_of_others_do_not_exist(house: House, viewer: httpx.AsyncClient) -> None:
    await house.organization("acme")
    theirs = await house.app.start("greet", org="acme")
    assert rows(await read(viewer, RUNS)) == []
    page = await read(viewer, f"{RUNS}/{theirs.id}", 404)
    assert theirs.id in page.text


async def test_a_run_shows_its_steps_its_attempts_and_why_they_were_decided_so(
    house: House, viewer: httpx.AsyncClient
) -> None:
    run = await house.app.start("order", 7, correlation_id="order-7", key="seven", metadata={"team": "shop"})
    await house.work()
    letter = await run.dead_letter()
    page = await read(viewer, f"{RUNS}/{run.id}")
    lanes = [each.text for each in page.find("title")]
    assert any(each.startswith("greet: 1 attempt, ") for each in lanes)
    assert any(each.startswith("attempt 1 failed: redrive.errors.FinalError for ") for each in lanes)
    outcomes = [each.text for each in page.find("td", data_label="Outcome")]
    assert outcomes == ["Failed", "Succeeded"]
    assert "the attempt succeeded" in page.text
    assert "the card of hello 7 was declined" in page.text
    assert letter is not None
    assert f"/app/admin/dlq/{letter.id}" in page.links
    assert "/app/admin/runs?q=correlation:order-7" in page.links
    assert "seven" in page.text
    assert "shop" in page.text
    assert f"redrive run view {run.id}" in [each.attributes.get("data-copy") for each in page.find("button")]


async def test_what_has_failed_is_retried_and_what_is_live_cancelled_by_those_who_may(house: House) -> None:
    failed, live = await house.app.start("charge"), await house.app.start("greet", delay=3600)
    await house.work()
    retry, cancel = f"POST /api/v1/runs/{failed.id}/retry", f"POST /api/v1/runs/{live.id}/cancel"
    for role, may in (("VIEWER", False), ("STAFF", False), ("ADMIN", True), ("OWNER", True)):
        client = await house.keyed(role)
        of_failed = (await read(client, f"{RUNS}/{failed.id}")).actions
        of_live = (await read(client, f"{RUNS}/{live.id}")).actions
        assert (retry in of_failed, cancel in of_live) == (may, may)
        assert not any(each.endswith("/cancel") for each in of_failed)
        assert not any(each.endswith("/retry") for each in of_live)
    ended = await house.app.start("greet")
    await house.work()
    actions = (await read(await house.keyed(), f"{RUNS}/{ended.id}")).actions
    assert not any(ended.id in each for each in actions)


async def test_it_says_what_it_waits_for_and_until_when(house: House, viewer: httpx.AsyncClient) -> None:
    @house.app.task(max_attempts=3)
    async def flaky(thing: Any = None) -> None:
        raise RetryableError("the disk is full")

    run = await house.app.start("flaky")
    await house.work()
    page = await read(viewer, f"{RUNS}/{run.id}")
    assert "Retrying" in page.text
    assert "Waiting for attempt 2 of flaky, due " in page.text
    [row] = (await read(viewer, RUNS)).find("tr", data_row="")
    assert "retry in " in row.text or "retry due " in row.text or "retry now" in row.text


async def test_what_a_breaker_holds_says_so(house: House, viewer: httpx.AsyncClient) -> None:
    @house.app.task(breaker="bank")
    async def pay(thing: Any = None) -> None: ...

    await house.app.breakers().force("bank", "OPEN", reason="they are away")
    run = await house.app.start("pay")
    await house.work()
    [row] = (await read(viewer, f"{RUNS}?q=is:held")).find("tr", data_row="")
    assert row.text.startswith("On hold pay")
    assert "held by breaker bank" in row.text
    page = await read(viewer, f"{RUNS}/{run.id}")
    assert (
        "On hold: held by breaker bank . It resumes automatically when the dependency recovers." in page.text
    )
    assert any(each.text.startswith("held by the breaker 'bank' for ") for each in page.find("title"))


async def test_a_replay_stays_next_to_what_was_before_it(house: House, viewer: httpx.AsyncClient) -> None:
    run = await house.app.start("charge")
    await house.work()
    await house.app.failures(by="carla").replay_run(run.id, reason="again")
    await house.work()
    page = await read(viewer, f"{RUNS}/{run.id}")
    assert [each.text for each in page.find("td", data_label="Outcome")] == ["Failed", "Failed"]
    assert any("stopped until replayed" in each.text for each in page.find("title"))
    assert "replayed charge by carla, " in page.text


async def test_secrets_stay_hidden_and_texts_stay_text(house: House, viewer: httpx.AsyncClient) -> None:
    payload = {"api_key": SECRET, "said": EVIL}
    run = await house.app.start("order", payload, tags=[EVIL[:50]], correlation_id=EVIL, key=EVIL)
    await house.work()
    for path in (RUNS, f"{RUNS}/{run.id}", f"{RUNS}?q=%3Cscript%3Ealert(1)"):
        text = (await viewer.get(path)).text
        assert SECRET not in text
        assert "<script>alert" not in text
        assert "<img" not in text
    page = await read(viewer, RUNS)
    [tag] = page.find("a", class_="tag")
    assert rows(await read(viewer, tag.attributes["href"])) == [run.id]


async def test_an_id_that_was_never_given_is_a_page_that_says_so(viewer: httpx.AsyncClient) -> None:
    for each in ("nothing", "%3Cscript%3E", "%00", "x" * 201):
        answer = await viewer.get(f"{RUNS}/{each}")
        assert answer.status_code in (404, 422)
        assert "<!doctype html>" in answer.text
        assert "<script>alert" not in answer.text


def test_a_value_is_asked_for_whatever_is_in_it() -> None:
    assert asked("tag", "vip") == "tag:vip"
    assert asked("tag", 'a "b" c') == 'tag:"a \\"b\\" c"'
