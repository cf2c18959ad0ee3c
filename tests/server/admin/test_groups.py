"""The page of a failure group: its state, its evidence, and the changes it offers (W8, W12, W13)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.server.admin.reading import Reading, read
from tests.server.admin.test_dead_letters import EVIL, desk_of, healing, letters, rows, spoil
from tests.server.house import House
from tests.store.build import ask

from redrive.failures.groups import FailureGroups
from redrive.parts import parts_of
from redrive.words.fact import text_of

GROUPS = "/app/admin/dlq/groups"


@pytest.fixture
async def admin(house: House) -> httpx.AsyncClient:
    return await house.keyed("ADMIN")


async def group_of(house: House, letter: str) -> str:
    return (await (await desk_of(house)).view(letter)).fingerprint


def address(fingerprint: str) -> str:
    return f"{GROUPS}/{quote(fingerprint, safe='')}"


def body_of(page: Reading, action: str) -> dict[str, Any]:
    """Return the attributes of the form of an action."""
    return next(
        each.attributes
        for each in page.find("form")
        if each.attributes.get("data-action", "").endswith(action)
    )


async def test_it_shows_whether_it_needs_you_and_is_still_happening(
    house: House, admin: httpx.AsyncClient
) -> None:
    ids = await letters(house, 3)
    failures = await desk_of(house)
    await failures.resolve(ids[0])
    name = await group_of(house, ids[0])
    page = await read(admin, address(name))
    [title] = page.find("h1")
    assert title.text == "the card of 2 was declined"
    assert "Needs you 2 dead letters need attention" in page.text
    assert "Still happening 3 since" in page.text
    assert "Dead letters 3" in page.text
    reason = text_of((await failures.groups.view(name)).group.reason)
    assert f"{reason[0].upper()}{reason[1:]}." in page.text
    assert [each.text for each in page.find("a", class_="button primary")] == ["Replay 2…"]
    assert f"/app/admin/replays/new?group={quote(name, safe=':')}" in page.links
    assert len(rows(page)) == 3
    copied = [each.attributes.get("data-copy") for each in page.find("button")]
    assert f"redrive dlq groups fp:{name[:19]}" in copied
    assert name in copied


async def test_it_shows_the_newest_sample_with_the_frames_of_the_application(
    house: House, admin: httpx.AsyncClient
) -> None:
    first, last = await letters(house, 2)
    page = await read(admin, address(await group_of(house, first)))
    assert f"/app/admin/dlq/{last}" in page.links
    assert "the card of 1 was declined" in page.text
    [function] = {each.text for each in page.find("span", class_="frame-function")}
    assert function == "charge"


async def test_letters_are_spread_over_states_versions_and_queues(
    house: House, admin: httpx.AsyncClient
) -> None:
    ids = await letters(house, 4)
    await (await desk_of(house)).ignore(ids[:3])
    name = await group_of(house, ids[0])
    page = await read(admin, address(name))
    [spread] = [each for each in page.find("section") if each.text.startswith("Distribution")]
    for text in ("By state Open 1 Ignored 3", "By queue default 4"):
        assert text in spread.text
    asked = f"/app/admin/dlq?q=fp:{name[:19]}%20is:ignored&view=flat"
    assert asked in page.links
    assert len(rows(await read(admin, asked))) == 3
    by_queue = f"/app/admin/dlq?q=fp:{name[:19]}%20queue:default&view=flat"
    assert len(rows(await read(admin, by_queue))) == 4


async def test_letters_that_heal_themselves_are_shown(house: House, admin: httpx.AsyncClient) -> None:
    healing(house)
    [letter] = await letters(house, 1, "flake")
    page = await read(admin, address(await group_of(house, letter)))
    assert "All clear No dead letters need attention" in page.text
    assert "Heals itself 1 scheduled for an automatic redrive" in page.text


async def test_an_ignored_failure_does_not_need_you(house: House, admin: httpx.AsyncClient) -> None:
    ids = await letters(house, 2)
    name = await group_of(house, ids[0])
    await (await desk_of(house)).groups.ignore(name, "later", beyond=5)
    page = await read(admin, address(name))
    assert "Ignored 2 open, ignored until 7 occurrences, 2 so far" in page.text
    assert "Needs you" not in page.text


async def test_during_a_replay_the_page_shows_it_and_does_not_suggest_another(
    house: House, admin: httpx.AsyncClient
) -> None:
    ids = await letters(house, 3)
    name = await group_of(house, ids[0])
    operations = (await desk_of(house)).plans
    plan = await operations.create(ids=ids[:2])
    letter = f"/app/admin/dlq/{ids[0]}"
    for path in (address(name), letter):
        assert "under way" not in (await read(admin, path)).text
    assert (await read(admin, address(name))).find("a", class_="button primary")
    await operations.start(plan.operation_id)
    for path, told in (
        (address(name), "2 included in a replay in progress"),
        (letter, "Included in a replay in progress"),
    ):
        page = await read(admin, path)
        assert told in page.text
        assert f"/app/admin/replays/{plan.operation_id}" in page.links
        assert not page.find("a", class_="button primary")


async def test_replays_are_counted_by_their_outcome(house: House, admin: httpx.AsyncClient) -> None:
    ids = await letters(house, 2)
    failures = await desk_of(house)
    name = await group_of(house, ids[0])
    assert "No replays yet" in (await read(admin, address(name))).text
    await failures.replay(ids[0])
    page = await read(admin, address(name))
    assert "Heals itself 1 is being replayed" in page.text
    await house.work()
    page = await read(admin, address(name))
    assert "0 of 1 replays succeeded Failed 1" in page.text
    assert "0 of 1 replays succeeded" in (await read(admin, "/app/admin/dlq")).text


async def test_the_time_that_is_shown_can_be_chosen(house: House, admin: httpx.AsyncClient) -> None:
    [letter] = await letters(house, 1)
    path = address(await group_of(house, letter))
    assert "Occurrences in the last 24h" in (await read(admin, path)).text
    assert "Occurrences in the last 7d" in (await read(admin, f"{path}?span=7d")).text
    assert (await admin.get(f"{path}?span=9d")).status_code == 422


# Changing the state

STATES = {
    "OPEN": ["acknowledge", "resolve", "ignore"],
    "ACKNOWLEDGED": ["resolve", "ignore", "reopen"],
    "IGNORED": ["resolve", "ignore", "reopen"],
    "RESOLVED": ["resolve", "reopen"],
}


@pytest.mark.parametrize("state", STATES)
async def test_only_the_current_transitions_are_offered(house: House, state: str) -> None:
    """A resolved group with open letters offers to resolve those letters."""
    [letter] = await letters(house, 1)
    name = await group_of(house, letter)
    await _bring(house, name, state)
    client = await house.keyed("ADMIN")
    page = await read(client, address(name))
    own = [each.rpartition("/")[2] for each in page.actions if each.startswith("POST /api/v1/groups/")]
    assert own == STATES[state]
    viewer = await read(await house.keyed("VIEWER"), address(name))
    assert not [each for each in viewer.actions if "/groups/" in each]
    assert "Plan replay of 1…" in viewer.text


async def _bring(house: House, name: str, state: str) -> FailureGroups:
    groups = (await desk_of(house)).groups
    match state:
        case "ACKNOWLEDGED":
            await groups.acknowledge(name, "mine")
        case "IGNORED":
            await groups.ignore(name, "later", until=3600.0, beyond=4, version="1.2")
        case "RESOLVED":
            await groups.resolve(name, "fixed")
    return groups


async def test_the_history_names_actors_and_changes(house: House, admin: httpx.AsyncClient) -> None:
    ids = await letters(house, 2)
    name = await group_of(house, ids[0])
    groups = await _bring(house, name, "IGNORED")
    page = await read(admin, address(name))
    assert "Ignored by ana" in page.text
    for text in ("later", "until 6 occurrences, 2 so far", "until a version other than 1.2 fails"):
        assert text in page.text
    await groups.resolve(name, "fixed")
    await letters(house, 1)
    page = await read(admin, address(name))
    assert "Regressed" in page.text
    assert "Regressed" in (await read(admin, "/app/admin/dlq")).text


async def test_resolving_it_with_its_letters_can_be_undone(house: House) -> None:
    """Check the request that the page sends, and the request that undoes it."""
    await house.member("ada", "correct horse battery", "ADMIN")
    admin = await house.signed_in("ada", "correct horse battery")
    ids = await letters(house, 3)
    name = await group_of(house, ids[0])
    page = await read(admin, address(name))
    form = body_of(page, "/resolve")
    assert [each.attributes["value"] for each in page.find("input", name="expect")] == ["3"]
    match = {"If-Match": f'"{form["data-match"]}"'}
    body = {"dead_letters": True, "expect": 3}
    done = await admin.post(form["data-action"].split()[1], json=body, headers=match)
    assert (done.json()["resolved"], sorted(done.json()["ids"])) == (3, sorted(ids))
    bodies = {"/api/v1/dead-letters/reopen": {"ids": done.json()["ids"]}}
    for call in form["data-undo"].split(" & "):
        path = call.split()[1]
        assert (await admin.post(path, json=bodies.get(path, {}))).status_code == 200
    detail = await (await desk_of(house)).groups.view(name)
    assert (detail.group.state, detail.letters.open) == ("OPEN", 3)
    late = await admin.post(form["data-action"].split()[1], json={}, headers=match)
    assert late.status_code == 412


async def test_acknowledging_and_ignoring_are_undone_by_reopening(
    house: House, admin: httpx.AsyncClient
) -> None:
    [letter] = await letters(house, 1)
    name = await group_of(house, letter)
    page = await read(admin, address(name))
    for action in ("/acknowledge", "/ignore"):
        form = body_of(page, action)
        assert form["data-undo"] == f"POST /api/v1/groups/{quote(name, safe='')}/reopen"
        assert json.loads(form["data-undo-body"]) == {}


@pytest.mark.parametrize("action", ["/resolve", "/ignore"])
@pytest.mark.parametrize("before", ["OPEN", "ACKNOWLEDGED", "IGNORED"])
async def test_undoing_gives_it_back_the_state_that_it_had(
    house: House, admin: httpx.AsyncClient, action: str, before: str
) -> None:
    [letter] = await letters(house, 1)
    name = await group_of(house, letter)
    groups = (await desk_of(house)).groups
    if before == "ACKNOWLEDGED":
        await groups.acknowledge(name, "mine")
    elif before == "IGNORED":
        await groups.ignore(name, "whatever comes")
    form = body_of(await read(admin, address(name)), action)
    body = {"dead_letters": True} if action == "/resolve" else {"beyond": 5}
    done = await admin.post(form["data-action"].split()[1], json=body)
    assert done.status_code == 200
    for call in form["data-undo"].split(" & "):
        said = {"ids": done.json()["ids"]} if call.endswith("/dead-letters/reopen") else {}
        assert (await admin.post(call.split()[1], json=said)).status_code == 200
    found = await groups.view(name)
    assert (found.group.state, found.letters.open) == (before, 1)
    assert (found.group.ignored_until, found.group.ignored_beyond, found.group.ignored_version) == (None,) * 3


async def test_changes_that_cannot_be_restored_offer_no_undo(house: House, admin: httpx.AsyncClient) -> None:
    """Above all, for how many more occurrences the group was ignored."""
    [letter] = await letters(house, 1)
    name = await group_of(house, letter)
    await _bring(house, name, "IGNORED")
    page = await read(admin, address(name))
    assert not {"data-undo"} & {*body_of(page, "/resolve"), *body_of(page, "/ignore")}


# Missing groups and hostile texts


async def test_a_group_is_found_by_the_beginning_of_its_fingerprint(
    house: House, admin: httpx.AsyncClient
) -> None:
    [letter] = await letters(house, 1)
    name = await group_of(house, letter)
    assert "was declined" in (await read(admin, f"{GROUPS}/{name[3:12]}")).text
    page = await read(admin, f"{GROUPS}/{'f' * 40}", 404)
    assert "Found no failure group" in page.text


async def test_another_organizations_group_is_not_there(house: House, admin: httpx.AsyncClient) -> None:
    """W13, I8."""
    await house.organization("acme")
    foreign = await house.dead_letter("CANARY", org="acme")
    name = (await house.app.failures(org="acme").view(foreign)).fingerprint
    page = await read(admin, address(name), 404)
    assert "CANARY" not in page.text


async def test_an_open_group_without_letters_raises_no_alarm(house: House, admin: httpx.AsyncClient) -> None:
    ids = await letters(house, 2)
    name = await group_of(house, ids[0])
    failures = await desk_of(house)
    await failures.resolve(ids[0])
    for path in (address(name), "/app/admin/dlq?q=is:any"):
        assert "Open" in signs(await read(admin, path), "bad")
    await failures.resolve(ids[1])
    assert (await failures.groups.view(name)).group.state == "OPEN"
    for path in (address(name), "/app/admin/dlq?q=is:any"):
        page = await read(admin, path)
        assert "Open, none left" in signs(page, "calm")
        assert "Open" not in signs(page, "bad")


def signs(page: Reading, tone: str) -> list[str]:
    return [each.text for each in page.find("span", class_=f"state {tone}")]


async def test_a_group_of_which_no_letter_is_left_is_still_known(
    house: House, admin: httpx.AsyncClient
) -> None:
    [letter] = await letters(house, 1)
    name = await group_of(house, letter)
    await (await desk_of(house)).resolve(letter)
    await ask(
        parts_of(house.app).database,
        "DELETE FROM redrive.dead_letters WHERE id = :id RETURNING id",
        id=letter,
    )
    page = await read(admin, address(name))
    assert "All dead letters of this group were removed" in page.text
    assert "No dead letters left." not in page.text  # the page knows its versions
    [button] = [each for each in page.find("button") if each.text == "Replay…"]
    assert "disabled" in button.attributes
    assert "No open or exhausted dead letters." in page.text


async def test_no_text_becomes_a_part_of_the_page(house: House, admin: httpx.AsyncClient) -> None:
    [letter] = await letters(house, 1)
    name = await group_of(house, letter)
    await spoil(house, letter, EVIL)
    failures = await desk_of(house, EVIL)
    await failures.groups.acknowledge(name, EVIL)
    await failures.assign(letter, EVIL)
    changed = "UPDATE redrive.failure_group_versions SET code_version = :spoilt RETURNING 1"
    await ask(parts_of(house.app).database, changed, spoilt=EVIL)
    text = (await admin.get(address(name))).text
    assert text.count("alert(1)") > 10
    assert "<script>alert" not in text
    assert "<img" not in text
    page = Reading(text)
    assert not [each for each in page.elements if any(key.startswith("on") for key in each.attributes)]


async def test_dead_letters_that_look_the_same_are_one_row_with_the_others_behind_it(
    house: House, admin: httpx.AsyncClient
) -> None:
    ids = await letters(house, 15, "refund")
    failures = await desk_of(house)
    await failures.resolve(ids[0])
    page = await read(admin, address(await group_of(house, ids[0])))
    opened, resolved = rows(page)
    assert "× 14" in opened.text
    assert "×" not in resolved.text
    assert {f"/app/admin/dlq/{each}" for each in ids} <= set(page.links)

    page = await read(admin, f"/app/admin/dlq/{ids[1]}")
    folds = [each.text.split(" 1a")[0] for each in page.find("details", class_="fold")]
    assert folds == ["× 13"]
    assert {f"/app/admin/dlq/{each}" for each in ids if each != ids[1]} <= set(page.links)
