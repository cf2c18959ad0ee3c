"""The pages of bulk replays: dialog, plan, progress and list (W9, W11, W12, W13)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.server.admin.reading import Reading, read
from tests.server.house import House

from redrive.parts import parts_of
from redrive.server.admin import selection
from redrive.server.api.replays import PlanRequest

REPLAYS, NEW, API = "/app/admin/replays", "/app/admin/replays/new", "/api/v1/operations"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
STEERING = ("start", "pause", "resume", "cancel")


async def planned(client: httpx.AsyncClient, **body: Any) -> str:
    selected = {} if {"ids", "group"} & body.keys() else {"query": "is:open"}
    answer = await client.post(API, json=selected | body)
    assert answer.status_code == 201, answer.text
    name: str = answer.json()["id"]
    return name


async def letters(house: House, number: int) -> list[str]:
    runs = await house.app.start_many("charge", range(number))
    await house.work()
    found = [await each.dead_letter() for each in runs]
    return [each.id for each in found if each is not None]


async def done(house: House, client: httpx.AsyncClient, operation: str, *states: str) -> None:
    """Work until the operation is in one of these states."""
    for _ in range(100):
        await house.work()
        if (await client.get(f"{API}/{operation}")).json()["state"] in states:
            return
    raise AssertionError(f"it was never {states}")


def form_of(page: Reading, action: str) -> dict[str, str]:
    [form] = [each.attributes for each in page.elements if each.attributes.get("data-action") == action]
    return form


# The dialog


async def test_the_dialog_shows_the_number_of_letters_and_plans_exactly_these(house: House) -> None:
    client, known = await house.keyed(), await letters(house, 7)
    failures = house.app.failures(by="ana")
    await failures.resolve(known[0], "by hand")
    group = (await failures.view(known[1])).fingerprint
    asked = {"q=is:open": 6, "q=step:charge": 6, f"group={group}": 6, f"ids={','.join(known[1:4])}": 3}
    for query, number in asked.items():
        page = await read(client, f"{NEW}?{query}")
        [heading] = page.find("h1", id="dialog-title")
        assert heading.text == f"Replay {number} dead letters", query
        body = json.loads(form_of(page, f"POST {API}")["data-body"])
        [expect] = page.find("input", name="expect")
        answer = await client.post(API, json={**body, "expect": int(expect.attributes["value"])})
        assert (answer.status_code, answer.json()["plan"]["selected"]) == (201, number), query


async def test_the_plan_is_a_key_away_and_its_fields_are_those_of_the_api(house: House) -> None:
    client, known = await house.keyed(), await letters(house, 2)
    for query in ("q=is:open", f"ids={known[0]}"):
        page = await read(client, f"{NEW}?{query}")
        [plan] = [each for each in page.find("button") if "autofocus" in each.attributes]
        assert plan.text == "Plan"
        assert form_of(page, f"POST {API}")["data-then"] == f"dialog {REPLAYS}/{{id}}"
        names = {each.attributes["name"] for each in page.find("input") if "name" in each.attributes}
        assert {each.partition(".")[0] for each in names} <= PlanRequest.model_fields.keys()
        assert "override_retry_policy.max_retries" in names
        assert ("canary" in names) is (query == "q=is:open")


async def test_a_single_dead_letter_comes_with_its_verdict(house: House) -> None:
    client, [letter] = await house.keyed("VIEWER"), await letters(house, 1)
    page = await read(client, f"{NEW}?ids={letter}")
    [heading] = page.find("h1")
    assert heading.text == "Replay 1 dead letter"
    assert "the card of 0 was declined" in page.text
    assert "Unlikely to succeed" in page.text


async def test_letters_that_cannot_be_replayed_replace_the_form_with_a_reason(house: House) -> None:
    client, known = await house.keyed(), await letters(house, 3)
    failures = house.app.failures(by="ana")
    await failures.ignore(known[0])
    alone = await read(client, f"{NEW}?ids={known[0]}")
    assert "This dead letter is ignored and can't be replayed now. Reopen it first." in alone.text
    assert f"POST {API}" not in alone.actions
    nothing = await read(client, f"{NEW}?q=step:nothing")
    assert [heading.text for heading in nothing.find("h1")] == ["Nothing to replay"]
    assert "No dead letters match any longer." in nothing.text
    some = await read(client, f"{NEW}?ids={','.join(known)}")
    assert "Replay 2 dead letters" in some.text
    assert "1 more selected, but not replayable" in some.text


async def test_an_invalid_value_is_reported_at_its_field(house: House) -> None:
    client, [letter] = await house.keyed(), await letters(house, 1)
    wrong = await read(client, f"{NEW}?q=stpe:charge", 422)
    assert "did you mean 'step'?" in wrong.find("p", role="alert")[0].text
    await read(client, f"{NEW}?q=is:open&ids={letter}", 422)
    for query in ("ids=nothing", "ids=%00", "ids=%F0%9F%92%A5", f"ids={letter},nothing", "group=nothing"):
        await read(client, f"{NEW}?{query}", 404)
    assert (await read(client, NEW)).find("input", name="q")
    await read(client, f"{NEW}?what=x", 422)


async def test_more_than_one_operation_takes_are_not_planned(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await letters(house, 3)
    monkeypatch.setattr(selection, "MAX_ITEMS", 2)
    page = await read(await house.keyed(), f"{NEW}?q=is:open")
    assert "More than 2 dead letters, the maximum for one replay" in page.text
    assert f"POST {API}" not in page.actions


async def test_unsafe_work_is_left_out_unless_the_operator_includes_it(house: House) -> None:
    @house.app.task(effect="unsafe", max_attempts=1)
    async def transfer(_: Any = None) -> None:
        raise TimeoutError("no answer from the bank")

    runs = await house.app.start_many(transfer, range(3))
    await parts_of(house.app).worker_in_test().work_off()
    first = await runs[0].dead_letter()
    assert first is not None
    client = await house.keyed()
    many = await read(client, f"{NEW}?q=is:open")
    [box] = many.find("input", name="exclude_unsafe")
    [expect] = many.find("input", name="expect")
    assert "checked" in box.attributes
    assert "disabled" in expect.attributes, "how many are left out only the plan knows"
    without = await read(client, f"{REPLAYS}/{await planned(client, exclude_unsafe=True)}")
    assert "Nothing to replay" in without.text
    assert "3 skipped: may repeat an unsafe side effect." in without.text
    [lead] = [each for each in without.find("a") if each.text == "include them"]
    with_them = await read(client, lead.attributes["href"])
    [box] = with_them.find("input", name="exclude_unsafe")
    [expect] = with_them.find("input", name="expect")
    assert "checked" not in box.attributes
    assert "disabled" not in expect.attributes
    assert expect.attributes["value"] == "3"
    [start] = [each for each in without.find("button") if each.text == "Start"]
    assert "disabled" in start.attributes
    risky = await read(client, f"{REPLAYS}/{await planned(client, ids=[first.id])}")
    assert "This dead letter may repeat an unsafe side effect." in risky.text
    [focused] = [each for each in risky.find("button") if "autofocus" in each.attributes]
    assert focused.text == "Not now"


# The plan


async def test_a_plan_shows_a_replay_in_progress(house: House) -> None:
    known = await letters(house, 3)
    operations = house.app.failures(by="ana").plans
    first = (await operations.create(ids=known[:2])).operation_id
    await operations.start(first)
    client = await house.keyed()
    [expect] = (await read(client, f"{NEW}?q=is:open")).find("input", name="expect")
    assert "disabled" in expect.attributes, "how many are left only the plan knows"
    page = await read(client, f"{REPLAYS}/{await planned(client)}")
    assert "1 of 3 dead letters will be replayed" in page.text
    assert "2 will not run: included in another replay in progress" in page.text
    assert f"{REPLAYS}/{first}" in page.links


async def test_a_plan_shows_what_will_happen_and_who_may_start_it(house: House) -> None:
    known = await letters(house, 2)
    failures = house.app.failures(by="ana")
    await failures.link(known[0], known[1])
    await house.app.queues(by="ana").pause("default", reason="a pause")
    owner = await house.keyed("OWNER")
    operation = await planned(owner, reason="the bank is back", override_retry_policy={"max_retries": 4})
    page = await read(owner, f"{REPLAYS}/{operation}")
    assert "2 of 2 dead letters will be replayed" in page.text
    assert "2 executions of charge" in page.text
    assert "2 wait for the queue default , which is paused" in page.text
    assert f"/app/admin/dlq/{known[1]}" in page.links
    assert "the bank is back" in page.text
    assert "keeps its policy, except for max_retries 4" in page.text
    assert page.find("div", id="dialog-content")
    assert page.find("h1", id="dialog-title")
    [start] = [each for each in page.find("button") if "autofocus" in each.attributes]
    assert start.text == "Start"
    for role in ("VIEWER", "STAFF", "ADMIN"):
        seen = await read(await house.keyed(role), f"{REPLAYS}/{operation}")
        assert (f"POST {API}/{operation}/start" in seen.actions) is (role == "ADMIN")
        assert ("An admin or owner has to start this one." in seen.text) is (role != "ADMIN")


async def test_one_goes_back_to_the_list_and_many_to_their_progress(house: House) -> None:
    client, known = await house.keyed(), await letters(house, 2)
    one, both = await planned(client, ids=known[:1]), await planned(client)
    start = f"POST {API}/{one}/start"
    [form] = (await read(client, f"{REPLAYS}/{one}")).find("form", data_action=start)
    assert form.attributes["data-then"] == "refresh"
    page = await read(client, f"{REPLAYS}/{both}")
    [form] = page.find("form", data_action=f"POST {API}/{both}/start")
    assert form.attributes["data-then"] == f"go {REPLAYS}/{both}"


async def test_drift_offers_planning_again_or_leaving_out_changed_letters(house: House) -> None:
    client, known = await house.keyed(), await letters(house, 3)
    group = (await house.app.failures().view(known[0])).fingerprint
    chosen: list[dict[str, Any]] = [{"ids": known}, {"query": "is:open"}, {"group": group}]
    careful = {"canary": 2, "rate": 4, "same_failures": None, "mode": "STEP_ONLY", "reason": "again"}
    operations = [await planned(client, **each, **careful) for each in chosen]
    await client.post(f"/api/v1/dead-letters/{known[0]}/resolve", json={})
    for operation in operations:
        page = await read(client, f"{REPLAYS}/{operation}")
        [drift] = [each for each in page.find("div") if "data-drift" in each.attributes]
        assert "hidden" in drift.attributes
        assert "changed since this plan was created" in drift.text
        refused = await client.post(f"{API}/{operation}/start", json={})
        assert (refused.status_code, refused.json()["number"]) == (409, 1)
        [anew] = [each for each in page.find("button") if each.text == "Plan again"]
        again = await client.post(API, json=json.loads(anew.attributes["data-body"]))
        assert again.status_code == 201, again.text
        assert again.json()["plan"]["will_run"] == 2
        old = (await client.get(f"{API}/{operation}")).json()
        for name in ("options", "mode", "reason"):
            assert again.json()[name] == old[name], name
        [without] = [each for each in page.find("button") if each.text == "Start without these"]
        assert json.loads(without.attributes["data-body"]) == {"accept_drift": True}


# The progress


async def test_a_replay_that_stopped_automatically_shows_why_and_what_to_do(house: House) -> None:
    client, known = await house.keyed(), await letters(house, 12)
    operation = await planned(client, canary=3, reason="it is fixed", same_failures=3)
    assert (await client.post(f"{API}/{operation}/start")).status_code == 202
    await done(house, client, operation, "STOPPED")
    page = await read(client, f"{REPLAYS}/{operation}")
    assert "Stopped automatically: 3 items failed with the same error as before." in page.text
    assert "9 were not started and remain dead letters" in page.text
    assert "same error as before" in page.text
    assert f"POST {API}/{operation}/resume" in page.actions
    assert f"POST {API}/{operation}/cancel" in page.actions
    assert f"POST {API}/{operation}/pause" not in page.actions
    [region] = page.find("div", id="progress")
    assert region.attributes["data-refresh"] == "operation. replay."
    assert "redrive replay view" in str([each.attributes for each in page.find("button")])
    failed = await read(client, f"{REPLAYS}/{operation}?state=FAILED")
    rows = [each.attributes["id"] for each in failed.find("tr") if "data-row" in each.attributes]
    assert rows == ["item-1", "item-2", "item-3"]
    assert f"/app/admin/dlq/{known[0]}" in failed.links
    for role in ("VIEWER", "STAFF"):
        seen = await read(await house.keyed(role), f"{REPLAYS}/{operation}")
        assert not [each for each in seen.actions if API in each]
        assert "Admins and owners can pause or cancel this replay." in seen.text


async def test_every_state_has_its_words_and_its_controls(house: House) -> None:
    client = await house.keyed(name="operator")
    await letters(house, 2)
    operation = await planned(client)
    expected = {
        "start": ("pick up the items", {"pause", "cancel"}),
        "pause": ("Paused. No more items start until you resume it.", {"resume", "cancel"}),
        "resume": ("pick up the items", {"pause", "cancel"}),
        "cancel": ("Cancelled. 2 were not started and remain unchanged.", set[str]()),
    }
    for verb, (words, verbs) in expected.items():
        body = {} if verb == "start" else {"reason": f"because of {verb}"}
        await client.post(f"{API}/{operation}/{verb}", json=body)
        page = await read(client, f"{REPLAYS}/{operation}")
        assert words in page.text, verb
        assert {each for each in STEERING if f"POST {API}/{operation}/{each}" in page.actions} == verbs
    assert "because of pause" in page.text
    assert page.text.count("by key:operator") >= 4


async def test_a_report_lists_successes_and_failures(house: House) -> None:
    @house.app.task(max_attempts=1)
    async def pay(order: int) -> None:
        if order in broken:
            raise ValueError("no such account")

    broken = {0, 1, 2, 3}
    worker = parts_of(house.app).worker_in_test()
    await house.app.start_many(pay, range(4))
    await worker.work_off()
    broken -= {1, 2, 3}
    client = await house.keyed()
    operation = await planned(client, failure_rate=1.0)
    await client.post(f"{API}/{operation}/start")
    for _ in range(100):
        await worker.work_off()
        if (await client.get(f"{API}/{operation}")).json()["state"] == "DONE":
            break
    page = await read(client, f"{REPLAYS}/{operation}")
    assert "3 succeeded, 1 failed." in page.text
    assert "4 of 4 finished · 100%" in page.text
    assert "25% of finished items" in page.text
    assert "same error as before" in page.text
    assert not [each for each in page.actions if API in each]
    [region] = page.find("div", id="progress")
    assert "data-refresh" not in region.attributes, "nothing will change any more"


async def test_items_continue_where_the_last_page_ended(house: House) -> None:
    client = await house.keyed()
    await letters(house, 60)
    operation = await planned(client)
    await client.post(f"{API}/{operation}/start")
    await client.post(f"{API}/{operation}/cancel", json={})
    for query in ("", "?state=CANCELLED"):
        first = await read(client, f"{REPLAYS}/{operation}{query}")
        [onwards] = [each for each in first.find("a") if each.attributes.get("rel") == "next"]
        second = await read(client, onwards.attributes["href"])
        rows = [[each.attributes["id"] for each in page.find("tr")[1:]] for page in (first, second)]
        assert [len(each) for each in rows] == [50, 10]
        assert sorted(rows[0] + rows[1]) == sorted(f"item-{number}" for number in range(1, 61))
    assert (
        "No items are in the state “Failed”."
        in (await read(client, f"{REPLAYS}/{operation}?state=FAILED")).text
    )
    await read(client, f"{REPLAYS}/{operation}?state=WRONG", 422)
    await read(client, f"{REPLAYS}/{operation}?cursor=x", 422)


# The list


async def test_the_list_has_replays_in_progress_on_top_and_the_newest_first(house: House) -> None:
    client = await house.keyed("ADMIN", name="operator")
    assert "No bulk replays yet" in (await read(client, REPLAYS)).text
    await letters(house, 2)
    running = await planned(client, reason="the first")
    await client.post(f"{API}/{running}/start")
    await client.post(f"{API}/{running}/pause", json={})
    plans = [await planned(client, reason=f"plan {number}") for number in range(25)]
    first = await read(client, REPLAYS)
    rows = [each.attributes["id"] for each in first.find("tr") if "data-row" in each.attributes]
    assert rows == [f"replay-{each}" for each in (running, *reversed(plans[5:]))]
    assert "the first" in first.text
    assert "is:open" in first.text
    [onwards] = [each for each in first.find("a") if each.attributes.get("rel") == "next"]
    second = await read(client, onwards.attributes["href"])
    rows = [each.attributes["id"] for each in second.find("tr") if "data-row" in each.attributes]
    assert rows == [f"replay-{each}" for each in (*reversed(plans[:5]), running)]


async def test_the_list_names_the_failure_that_a_replay_is_about(house: House) -> None:
    """It showed the fingerprint of the group, which says nothing to a person."""
    client, [known, _] = await house.keyed(), await letters(house, 2)
    group = (await house.app.failures().view(known)).fingerprint
    await planned(client, group=group)
    address = f"/app/admin/dlq/groups/{quote(group, safe='')}"
    [link] = (await read(client, REPLAYS)).find("a", href=address)
    assert "was declined" in link.text


async def test_a_foreign_one_does_not_exist(house: House) -> None:
    """W13."""
    await house.organization("acme")
    letter = await house.dead_letter(org="acme")
    theirs = await house.keyed("OWNER", "acme")
    operation = await planned(theirs)
    client = await house.keyed()
    await read(client, f"{REPLAYS}/{operation}", 404)
    await read(client, f"{REPLAYS}?cursor={operation}", 404)
    await read(client, f"{NEW}?ids={letter}", 404)
    assert operation not in (await client.get(REPLAYS)).text
    assert "2 dead letters" not in (await client.get(f"{NEW}?q=is:any")).text
    assert "1 dead letter will be replayed" in (await read(theirs, f"{REPLAYS}/{operation}")).text


async def test_texts_of_operators_stay_text(house: House) -> None:
    @house.app.task(max_attempts=1)
    async def evil(_: Any = None) -> None:
        raise ValueError(EVIL)

    await house.app.start(evil, EVIL)
    worker = parts_of(house.app).worker_in_test()
    await worker.work_off()
    client = await house.keyed(name=EVIL[:60])
    operation = await planned(client, query=f'is:open -"{EVIL.replace(chr(34), "")}x"', reason=EVIL)
    pages = [f"{NEW}?q=is:open", f"{REPLAYS}/{operation}", REPLAYS]
    answers = [await client.get(each) for each in pages]
    await client.post(f"{API}/{operation}/start")
    await worker.work_off()
    await client.post(f"{API}/{operation}/cancel", json={"reason": EVIL})
    answers += [await client.get(each) for each in (*pages, f"{NEW}?q={EVIL}")]
    for answer in answers:
        assert "alert(1)" in answer.text
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text
