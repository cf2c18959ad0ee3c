"""The list of dead letters: needs you, heals itself, bulk actions (W8, W12, W13)."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.server.admin.reading import Element, Reading, read
from tests.server.house import House
from tests.store.build import ask

from redrive.errors import FinalError, InvalidValueError, RetryableError, StatementTimeoutError
from redrive.failures.service import Failures
from redrive.model.query import Count
from redrive.parts import parts_of
from redrive.policy.query import parse
from redrive.server.admin.dead_letters import SIZE, corrected
from redrive.server.admin.groups import short
from redrive.server.admin.selection import QuerySelection, select_query

DLQ = "/app/admin/dlq"
LETTER_TEXTS = (
    "title",
    "message",
    "error_type",
    "workflow",
    "step",
    "queue",
    "category",
    "code_version",
)
GROUP_TEXTS = ("title", "reason", "error_type", "workflow", "step", "task", "category")
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


@pytest.fixture
async def admin(house: House) -> httpx.AsyncClient:
    return await house.keyed("ADMIN")


def rows(page: Reading) -> list[Element]:
    return page.find("tr", data_row="")


def boxes(page: Reading) -> list[Element]:
    return page.find("input", name="ids")


def chosen(page: Reading) -> list[str]:
    return [each.text for each in page.find("a", aria_current="true")]


def copied(page: Reading) -> list[str]:
    return [each.attributes["data-copy"] for each in page.elements if "data-copy" in each.attributes]


async def desk_of(house: House, by: str = "ana") -> Failures:
    return house.app.failures(by=by)


async def letters(house: House, number: int, work: str = "charge") -> list[str]:
    """Create dead letters of one failure and return their ids. `refund` fails differently from `charge`."""
    if "refund" not in parts_of(house.app).registry.tasks:
        house.app.task(refund)
    runs = await house.app.start_many(work, list(range(number)))
    await house.work()
    found = [await each.dead_letter() for each in runs]
    return [each.id for each in found if each is not None]


async def refund(order: Any = None) -> None:
    raise FinalError("the order is unknown")


def healing(house: House, **options: Any) -> None:
    """Register a task whose dead letters Redrive will redrive automatically."""

    async def flake(order: Any = None) -> None:
        raise RetryableError("the bank is closed")

    house.app.task(name="flake", max_attempts=1, redrive="exponential", **options)(flake)


async def spoil(house: House, letter: str, text: str) -> None:
    """Write a text into every column that a person with database access could have changed."""
    for table, names, key in (
        ("dead_letters", LETTER_TEXTS, "id = :id"),
        ("failure_groups", GROUP_TEXTS, "sample = :id"),
    ):
        changes = ", ".join(f"{name} = :spoilt" for name in names)
        statement = f"UPDATE redrive.{table} SET {changes} WHERE {key} RETURNING 1"
        assert await ask(parts_of(house.app).database, statement, id=letter, spoilt=text) == [(1,)]


async def test_at_first_it_shows_the_failures_that_need_you(house: House, admin: httpx.AsyncClient) -> None:
    await letters(house, 3)
    resolved = await letters(house, 1, "refund")
    await (await desk_of(house)).resolve(resolved)
    page = await read(admin, DLQ)
    [row] = rows(page)
    group = (await (await desk_of(house)).groups.list("is:needs-you")).lines[0].group
    assert row.text.startswith("the card of 2 was declined charge")
    assert "unknown 3 3 failures in the last 24 h" in row.text
    assert "Open" in row.text
    assert f"{DLQ}/groups/{quote(group.fingerprint, safe='')}" in page.links
    assert page.find("input", name="q")[0].attributes["value"] == "is:needs-you"
    assert [each for each in chosen(page) if each.startswith("Needs you 3")]
    assert "redrive dlq groups is:needs-you" in copied(page)
    assert "1 failure with 3 open or exhausted dead letters" in page.text
    assert "Resolved 1" in page.text


async def test_ignored_failures_are_separate_from_what_needs_you(
    house: House, admin: httpx.AsyncClient
) -> None:
    [letter] = await letters(house, 1, "refund")
    await letters(house, 2)
    failures = await desk_of(house)
    await failures.groups.ignore((await failures.view(letter)).fingerprint, "later")
    needs, ignored = (await read(admin, DLQ)).find("tr", class_="section")
    assert needs.text == "Needs you 2 dead letters in 1 failure on this page"
    assert ignored.text.startswith("Ignored 1 dead letter in 1 failure on this page")
    [alone] = (await read(admin, f"{DLQ}?q=group:ignored")).find("tr", class_="section")
    assert alone.text.startswith("Ignored 1 dead letter")


async def test_runs_that_wait_for_a_retry_are_found_as_they_are_counted(
    house: House, admin: httpx.AsyncClient
) -> None:
    @house.app.task(max_attempts=3)
    async def flaky(thing: Any = None) -> None:
        raise RetryableError("the disk is full")

    await house.app.start(flaky)
    await house.work()
    await house.app.start(flaky, delay=3600.0)
    [lead] = [each for each in (await read(admin, DLQ)).find("a") if each.text == "1 run waiting for a retry"]
    found = await read(admin, lead.attributes["href"])
    assert len([each for each in found.find("tr") if "data-row" in each.attributes]) == 1


async def test_what_heals_itself_is_separate_from_what_needs_you(
    house: House, admin: httpx.AsyncClient
) -> None:
    """UI, rule 1."""
    healing(house)
    await letters(house, 2, "flake")
    await letters(house, 3)
    page = await read(admin, f"{DLQ}?q=is:live")
    needs, heals = page.find("tr", class_="section")
    assert needs.text == "Needs you 3 dead letters in 1 failure on this page"
    assert heals.text.startswith("Replaying or due 2 dead letters in 1 failure on this page")
    assert "2 scheduled" in rows(page)[1].text
    assert len(rows(await read(admin, DLQ))) == 1
    [healing_row] = rows(await read(admin, f"{DLQ}?q=is:heals-itself"))
    assert "the bank is closed" in healing_row.text
    [first, *_] = rows(await read(admin, f"{DLQ}?q=is:heals-itself&view=flat"))
    assert "Redrive due in" in first.text


async def test_12_gap_9_a_letter_that_waits_for_another_one_shows_no_time(
    house: House, admin: httpx.AsyncClient
) -> None:
    """The time of its own redrive passes while it waits."""
    healing(house)
    waiting, other = await letters(house, 2, "flake")
    await (await desk_of(house)).link(waiting, other)
    answer = (await admin.get(f"/api/v1/dead-letters/{waiting}")).json()
    shown = answer["state"], answer["status"], answer["next_redrive_at"], answer["waits"]
    assert shown == ("OPEN", "redrive due", None, True)
    listed = (await admin.get("/api/v1/dead-letters", params={"q": "is:scheduled"})).json()
    assert {line["id"]: line["waits"] for line in listed["items"]} == {waiting: True, other: False}
    texts = [row.text for row in rows(await read(admin, f"{DLQ}?q=is:heals-itself&view=flat"))]
    assert sorted("Redrive due after another" in text for text in texts) == [False, True]
    page = await read(admin, f"{DLQ}/{waiting}")
    assert "next after the dead letter that it waits for" in page.text


async def test_an_open_letter_without_a_redrive_needs_you(house: House, admin: httpx.AsyncClient) -> None:
    """The policy doesn't matter: it may have no redrives left."""
    healing(house, max_redrives=0)
    [left] = await letters(house, 1, "flake")
    failures = await desk_of(house)
    letter = await failures.view(left)
    assert (letter.state, letter.redrive, letter.next_redrive_at) == ("OPEN", "exponential", None)
    for query, found in (("needs-you", 1), ("unscheduled", 1), ("heals-itself", 0), ("scheduled", 0)):
        assert (await failures.count(f"is:{query}")).number == found, query
        assert len(rows(await read(admin, f"{DLQ}?q=is:{query}"))) == found, query
    page = await read(admin, DLQ)
    assert "to be redriven" not in rows(page)[0].text
    assert "Needs you 1" in page.text


async def test_the_list_can_show_every_letter_separately(house: House, admin: httpx.AsyncClient) -> None:
    first, second = await letters(house, 2)
    failures = await desk_of(house)
    await failures.assign(first, "ben")
    await failures.tag(first, ["vip", "b2b"])
    page = await read(admin, f"{DLQ}?view=flat&sort=oldest")
    assert [each.attributes["id"] for each in rows(page)] == [f"d-{first}", f"d-{second}"]
    row = rows(page)[0].text
    assert row.startswith("the card of 0 was declined redrive.errors.FinalError charge default")
    for text in ("Open", "ben", "vip", "b2b", first[:15]):
        assert text in row
    assert "2 dead letters" in page.text
    assert "redrive dlq list is:needs-you" in copied(page)
    assert chosen(page)[-2:] == ["List", "Oldest"]
    newest = await read(admin, f"{DLQ}?view=flat")
    assert [each.attributes["id"] for each in rows(newest)] == [f"d-{second}", f"d-{first}"]


@pytest.mark.parametrize(
    ("asked", "grouped"),
    [
        ("q=queue:default", False),
        ("q=is:open+attempts:1&view=groups", False),
        ("q=group:open&view=flat", True),
        ("q=occurrences:>0", True),
        ("q=category:unknown", True),
    ],
)
async def test_a_query_shows_its_kind_of_list(
    house: House, admin: httpx.AsyncClient, asked: str, grouped: bool
) -> None:
    await letters(house, 1)
    page = await read(admin, f"{DLQ}?{asked}")
    assert bool(page.find("table", aria_label="Failures")) is grouped
    assert ("List" in [link.text for link in page.find("a")]) is (asked == "q=category:unknown")


async def test_an_empty_query_lists_everything(house: House, admin: httpx.AsyncClient) -> None:
    await (await desk_of(house)).archive(await letters(house, 1))
    assert rows(await read(admin, DLQ)) == []
    page = await read(admin, f"{DLQ}?q=")
    assert page.find("input", name="q")[0].attributes["value"] == "is:any"
    assert "Done with" not in page.text
    assert len(rows(page)) == 1


async def test_pages_of_rows_continue_where_they_ended(
    house: House, admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.server.admin.dead_letters.SIZE", 2)
    ids = await letters(house, 3)
    await letters(house, 1, "refund")
    for view, number in (("flat", 4), ("groups", 2)):
        found: list[str] = []
        path = f"{DLQ}?view={view}"
        while path:
            page = await read(admin, path)
            found += [each.attributes["id"] for each in rows(page)]
            path = next((each.attributes["href"] for each in page.find("a", rel="next")), "")
        assert len(found) == len(set(found)) == number
    assert SIZE == 50
    assert ids


async def test_an_invalid_query_gets_an_error_and_a_suggestion(
    house: House, admin: httpx.AsyncClient
) -> None:
    page = await read(admin, f"{DLQ}?q=categroy:timeout+step:charge", 422)
    assert "Unknown key 'categroy' at position 1; did you mean 'category'?" in page.text
    [link] = [each for each in page.find("a") if each.text.startswith("Search for")]
    assert link.text == "Search for category:timeout step:charge"
    assert link.attributes["href"] == f"{DLQ}?q=category:timeout%20step:charge"
    assert page.find("input", name="q")[0].attributes["aria-invalid"] == "true"
    assert rows(page) == []
    mixed = await read(admin, f"{DLQ}?q=group:open+queue:default", 422)
    assert "remove one of them" in mixed.text
    assert "began" not in (await read(admin, f"{DLQ}?cursor=nonsense", 422)).text


@pytest.mark.parametrize("asked", ["view=other", "sort=other", "color=red", f"q={'x' * 2001}"])
async def test_unknown_parameters_are_rejected(small_house: House, asked: str) -> None:
    client = await small_house.keyed("VIEWER")
    assert (await client.get(f"{DLQ}?{asked}")).status_code == 422


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("is:opne x", "is:open x"),
        ("a stpe:b", "a step:b"),
        ('"a\\"b" stpe:b', '"a\\"b" step:b'),
        ("zzz:b", ""),
        ("attempts:x", ""),
    ],
)
def test_the_suggestion_is_put_in_its_place(query: str, expected: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse(query)
    assert corrected(query, caught.value) == expected


# Empty lists


async def test_an_empty_list_of_needs_you_is_good_news(house: House, admin: httpx.AsyncClient) -> None:
    page = await read(admin, DLQ)
    assert "No dead letters need attention Nothing is being replayed or scheduled." in page.text
    assert "No dead letters No run has failed permanently yet." in (await read(admin, f"{DLQ}?q=is:any")).text
    assert "Nothing is replaying or due" in (await read(admin, f"{DLQ}?q=is:heals-itself")).text
    healing(house)
    await letters(house, 2, "flake")
    page = await read(admin, DLQ)
    assert "2 dead letters are being replayed or scheduled for a redrive." in page.text
    assert f"{DLQ}?q=is:heals-itself" in page.links


async def test_a_filter_without_results_can_be_cleared(house: House, admin: httpx.AsyncClient) -> None:
    await letters(house, 1)
    page = await read(admin, f"{DLQ}?q=workflow:nothing")
    assert "No matches No results for workflow:nothing." in page.text
    assert {DLQ, f"{DLQ}?q=is:any"} <= set(page.links)


# Bulk actions


async def test_the_number_shown_is_the_number_affected(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """UI, rule 3: the page sends exactly what the API executes, and the API's response undoes it."""
    await house.member("ada", "correct horse battery", "ADMIN")
    admin = await house.signed_in("ada", "correct horse battery")
    await letters(house, 3)
    await letters(house, 2, "refund")
    page = await read(admin, DLQ)
    assert "2 failures with 5 open or exhausted dead letters" in page.text
    for box in boxes(page):
        query = f"fp:{box.attributes['value']} is:open,exhausted"
        body = {"query": query, "expect": int(box.attributes["data-number"])}
        done = await admin.post("/api/v1/dead-letters/resolve", json=body)
        assert done.json()["changed"] == body["expect"] in (2, 3)
        undone = await admin.post("/api/v1/dead-letters/reopen", json={"ids": done.json()["ids"]})
        assert undone.json() == {"changed": body["expect"]}
    assert "that match" not in page.text  # all of them are on this page
    monkeypatch.setattr("redrive.server.admin.dead_letters.SIZE", 1)
    page = await read(admin, DLQ)
    assert "Select all 5 matches" in page.text
    place = selection(page)
    body = {"query": place["data-query"], "expect": int(place["data-number"])}
    assert (await admin.post("/api/v1/dead-letters/archive", json=body)).json()["changed"] == 5


def selection(page: Reading) -> dict[str, str]:
    return next(each.attributes for each in page.elements if "data-selection" in each.attributes)


@pytest.mark.parametrize(("view", "changed"), [("groups", 3), ("flat", 1)])
async def test_a_row_is_resolved_by_exactly_the_values_it_shows(
    house: House, view: str, changed: int
) -> None:
    """Fill in the placeholders of the template, as the script does."""
    await house.member("ada", "correct horse battery", "ADMIN")
    admin = await house.signed_in("ada", "correct horse battery")
    ids = await letters(house, 3)
    page = await read(admin, f"{DLQ}?view={view}")
    [button] = page.find("button", data_key="e")
    box = boxes(page)[0].attributes
    told = {"id": box["value"], "number": box.get("data-number", "")}
    method, path = _filled(button.attributes["data-action"], told).split()
    answer = await admin.request(
        method, path, json=json.loads(_filled(button.attributes.get("data-body"), told))
    )
    assert answer.status_code == 200
    assert (await (await desk_of(house)).count("is:resolved")).number == changed
    undo = json.loads(_filled(button.attributes.get("data-undo-body"), told)) or {"ids": answer.json()["ids"]}
    assert button.attributes["data-undo"] == "POST /api/v1/dead-letters/reopen"
    assert (await admin.post("/api/v1/dead-letters/reopen", json=undo)).json() == {"changed": changed}
    assert ids


def _filled(text: str | None, told: dict[str, str]) -> str:
    for name, value in told.items():
        text = (text or "{}").replace(f"{{{name}}}", value)
    return text or ""


async def test_all_that_match_are_only_those_that_can_be_acted_on(
    house: House, admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await letters(house, 3)
    await (await desk_of(house)).resolve(ids[0])
    page = await read(admin, f"{DLQ}?q=workflow:charge&view=flat")
    assert [each.attributes["data-state"] for each in boxes(page)] == ["OPEN", "OPEN", "RESOLVED"]
    monkeypatch.setattr("redrive.server.admin.dead_letters.SIZE", 1)
    page = await read(admin, f"{DLQ}?q=workflow:charge&view=flat")
    assert selection(page)["data-query"] == "workflow:charge is:open,exhausted"
    assert selection(page)["data-number"] == "2"
    assert "Open and exhausted only." in page.text
    await (await desk_of(house)).resolve(ids[1])
    closed = await read(admin, f"{DLQ}?q=is:resolved&view=flat")
    assert "data-query" not in selection(closed)


async def test_a_group_without_open_letters_cannot_be_selected(
    house: House, admin: httpx.AsyncClient
) -> None:
    await (await desk_of(house)).resolve(await letters(house, 1))
    page = await read(admin, f"{DLQ}?q=is:any")
    assert boxes(page) == []
    assert "No open or exhausted dead letters" in [
        each.attributes.get("title") for each in page.find("input", type="checkbox")
    ]
    assert not [each for each in page.find("input", type="checkbox") if "data-number" in each.attributes]


async def test_more_than_can_be_counted_cannot_be_selected_at_once(
    house: House, admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def many(failures: Failures, query: str = "") -> Count:
        return Count(10_000, capped=True)

    await letters(house, 2)
    monkeypatch.setattr("redrive.server.admin.dead_letters.SIZE", 1)
    monkeypatch.setattr("redrive.failures.dead_letters.DeadLetters.count", many)
    page = await read(admin, f"{DLQ}?view=flat")
    assert "10,000+ dead letters" in page.text
    assert "More than 10,000 match, the maximum for one action. Narrow the query." in page.text
    [button] = [each for each in page.find("button") if each.text == "Select all matches"]
    assert "disabled" in button.attributes
    assert "data-query" not in selection(page)


async def test_a_count_that_takes_too_long_is_left_out(
    house: House, admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_long(*asked: object, **options: object) -> Count:
        raise StatementTimeoutError("it took too long; narrow it", seconds=5.0)

    await letters(house, 2)
    await letters(house, 1, "refund")
    monkeypatch.setattr("redrive.server.admin.dead_letters.SIZE", 1)
    monkeypatch.setattr("redrive.failures.dead_letters.DeadLetters.count", too_long)
    monkeypatch.setattr("redrive.failures.group_queries.GroupQueries.count", too_long)
    for path in (DLQ, f"{DLQ}?view=flat"):
        page = await read(admin, path)
        assert "counting took too long" in page.text
        assert len(rows(page)) == 1
    monkeypatch.setattr("redrive.failures.dead_letters.DeadLetters.list", too_long)
    assert "It took too long; narrow it" in (await read(admin, f"{DLQ}?view=flat", 503)).text


async def test_keys_of_only_groups_or_only_letters_are_no_query_for_both(house: House) -> None:
    failures = await desk_of(house)
    await letters(house, 2)
    assert await select_query(failures, "group:open", grouped=True) is None
    for query in ("is:open since:2h", "is:open workflow:charge", "declined"):
        assert await select_query(failures, query, grouped=True) is None
    both = await select_query(failures, "is:open step:charge", grouped=True)
    assert both == QuerySelection("is:open step:charge", 2, narrowed=False)


def test_fifty_failures_fit_into_one_query() -> None:
    assert short("v1:" + "a" * 40) == "v1:" + "a" * 16
    assert len("fp:" + ",".join([short("v1:" + "a" * 40)] * SIZE) + " is:open,exhausted") < 2000


# Which role may do what


@pytest.mark.parametrize(
    ("role", "verbs"),
    [
        ("VIEWER", set[str]()),
        ("STAFF", {"tags", "assign"}),
        ("ADMIN", {"tags", "assign", "resolve", "ignore", "archive", "reopen"}),
    ],
)
async def test_a_control_that_the_role_can_never_use_is_absent(
    house: House, role: str, verbs: set[str]
) -> None:
    """UI, rule 6; W12."""
    ids = await letters(house, 2)
    await (await desk_of(house)).resolve(ids[0])
    client = await house.keyed(role)
    for path in (f"{DLQ}?q=is:any&view=flat", f"{DLQ}?q=is:any"):
        page = await read(client, path)
        on_letters = {each.rpartition("/")[2] for each in page.actions if "/dead-letters" in each}
        assert on_letters == (verbs if "flat" in path else verbs & {"resolve", "ignore", "archive"})
        assert "Plan replay…" in page.text if role != "ADMIN" else "Replay…" in page.text
        assert any(each.startswith("POST /api/v1/saved-views") for each in page.actions) is (role != "VIEWER")


async def test_another_organizations_letters_are_not_there(house: House, admin: httpx.AsyncClient) -> None:
    """W13, I8."""
    await house.organization("acme")
    foreign = await house.dead_letter("CANARY", org="acme")
    for path in (DLQ, f"{DLQ}?q=is:any&view=flat", f"{DLQ}?q=id:{foreign}"):
        page = await read(admin, path)
        assert rows(page) == []
        assert "CANARY" not in page.text


# Hostile texts


async def test_no_text_becomes_a_part_of_the_page(house: House, admin: httpx.AsyncClient) -> None:
    [letter] = await letters(house, 1)
    await spoil(house, letter, EVIL)
    failures = await desk_of(house)
    await failures.assign(letter, EVIL)
    await failures.tag(letter, [EVIL])
    await failures.views.create(EVIL[:40], "dlq", '"<script>"')
    asked = [quote(each, safe="") for each in ('is:any "<script>alert(1)"', EVIL, f"is:any -{'x' * 90}")]
    for path in (DLQ, f"{DLQ}?view=flat", *(f"{DLQ}?q={each}" for each in asked)):
        text = (await admin.get(path)).text
        assert "alert(1)" in text
        assert "<script>alert" not in text
        assert "<img" not in text
        page = Reading(text)
        assert not [each for each in page.elements if any(name.startswith("on") for name in each.attributes)]


async def test_a_saved_view_links_to_its_query(house: House, admin: httpx.AsyncClient) -> None:
    failures = await desk_of(house)
    await failures.views.create("slow", "dlq", "is:open category:timeout", view="flat", sort="oldest")
    page = await read(admin, DLQ)
    [link] = [each for each in page.find("a") if each.text == "slow"]
    assert link.attributes["href"] == f"{DLQ}?q=is:open%20category:timeout&view=flat&sort=oldest"
    assert "2 of" not in page.text
    saving = next(
        each for each in page.find("form") if "saved-views" in each.attributes.get("data-action", "")
    )
    body = json.loads(saving.attributes["data-body"])
    assert body == {"page": "dlq", "query": "is:needs-you", "view": "", "sort": ""}
