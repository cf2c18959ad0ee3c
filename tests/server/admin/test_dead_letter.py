"""The page of one dead letter: what it shows, and which role may do what (W8, W11, W12, W14)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from tests.server.admin.reading import Reading, read
from tests.server.house import House
from tests.store.build import ask
from tests.store.letters import alter

from redrive.dead_letter_queue import DeadLetterQueue
from redrive.errors import RetryableError
from redrive.model.dead_letter import DeadLetter, version_of
from redrive.parts import parts_of, rewire
from redrive.policy.backoff import Backoff
from redrive.policy.curve import Immediate
from redrive.policy.description import describe_stored_policy
from redrive.policy.retry import RetryPolicy
from redrive.policy.stack import stack_of
from redrive.server.admin.dead_letter import ticket_lines, web_address

PAGE = "/app/admin/dlq"
API = "/api/v1/dead-letters"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}"
SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
TEXTS = (
    "step",
    "task",
    "workflow",
    "queue",
    "category",
    "error_class",
    "error_type",
    "message",
    "stack",
    "public_code",
    "public_message",
    "reason",
    "decision",
    "fingerprint_reason",
    "title",
    "idempotency_key",
    "correlation_id",
    "last_replayed_by",
    "resolved_by",
    "resolution",
    "effect",
    "breaker",
    "code_version",
    "assignee",
    "template",
    "runbook",
    "redrive",
)


@pytest.fixture
async def admin(house: House) -> httpx.AsyncClient:
    return await house.keyed("ADMIN")


async def letter_of(house: House, letter: str) -> DeadLetter:
    return await house.app.failures().view(letter)


async def altered(house: House, letter: str, **fields: Any) -> None:
    """Overwrite stored fields of a dead letter."""
    await alter(parts_of(house.app).database, letter, **fields)


def verbs(page: Reading, letter: str) -> set[str]:
    """Return the actions that the page offers for a dead letter."""
    address = f"POST {API}/{letter}/"
    return {each.removeprefix(address) for each in page.actions if each.startswith(address)}


def replays(page: Reading) -> list[str]:
    return [each.attributes["href"] for each in page.find("a", data_key="r")]


# What the page shows


async def test_the_verdict_comes_first(house: House, admin: httpx.AsyncClient) -> None:
    letter = await house.dead_letter({"order": 7, "password": "hunter2"}, work="order")
    page = await read(admin, f"{PAGE}/{letter}")
    [title] = page.find("h1")
    assert title.text.startswith("the card of")
    [head] = page.find("section", id="letter-head")
    for part in (
        "Dead letters › order › charge",
        "Open: needs you",
        "Why it stopped It stopped after 1 attempt",
        "What changed since No changes detected.",
        "A replay is unlikely to succeed",
        "unless the code, the settings or the payload change first.",
    ):
        assert part in head.text
    assert head.attributes["data-about"] == letter
    assert "replay." in head.attributes["data-refresh"].split()


async def test_its_step_is_counted_from_1(house: House, admin: httpx.AsyncClient) -> None:
    letter = await house.dead_letter({"order": 7}, work="order")
    assert "charge (step 2 of 2)" in (await read(admin, f"{PAGE}/{letter}")).text
    run = (await letter_of(house, letter)).run_id
    page = await read(admin, f"/app/admin/runs/{run}")
    assert "charge (step 2 of 2)" in page.text
    alone = await house.dead_letter()
    assert "(step" not in (await read(admin, f"{PAGE}/{alone}")).text


async def test_a_long_title_is_clamped_and_whole_in_its_tooltip(
    house: House, admin: httpx.AsyncClient
) -> None:
    letter = await house.dead_letter()
    await altered(house, letter, message="far too long " * 40)
    page = await read(admin, f"{PAGE}/{letter}")
    [title] = page.find("h1")
    assert "clamp" in title.attributes["class"]
    assert len(title.text) <= 220
    assert title.attributes["title"] == ("far too long " * 40).strip()
    [row] = (await read(admin, f"{PAGE}?view=flat")).find("a", class_="title clamp")
    assert title.attributes["title"].startswith(row.attributes["title"].rstrip("…"))


async def test_links_and_commands_are_copied_by_icons_with_a_name(
    house: House, admin: httpx.AsyncClient
) -> None:
    letter = await house.dead_letter()
    page = await read(admin, f"{PAGE}/{letter}")
    buttons = page.find("button", class_="quiet small icon-button")
    assert [button.text for button in buttons] == ["Copy as CLI command", "Copy link"]
    assert buttons[0].attributes["data-copy"] == f"redrive dlq view {letter}"


async def test_the_frame_and_the_payload_are_shown(house: House, admin: httpx.AsyncClient) -> None:
    letter = await house.dead_letter({"order": 7, "password": "hunter2", "key": SECRET})
    answer = await admin.get(f"{PAGE}/{letter}")
    page = Reading(answer.text)
    [frame] = page.find("span", class_="frame-function")
    assert frame.text == "charge"
    [place] = page.find("span", class_="frame-place")
    assert place.text.endswith("house.py:37")
    assert "redacted password" in [each.text for each in page.find("span", class_="secret")]
    assert "hunter2" not in answer.text
    assert SECRET not in answer.text
    copied = [each.attributes.get("data-copy", "") for each in page.find("button")]
    assert any('"password": "[redacted:password]"' in each for each in copied)
    assert f"redrive dlq view {letter}" in copied
    assert f"redrive dlq replay {letter}" in copied
    assert any(each.startswith("## the card of") and f"{PAGE}/{letter}" in each for each in copied)


async def test_its_facts(house: House, admin: httpx.AsyncClient) -> None:
    letter = await house.dead_letter()
    found = await letter_of(house, letter)
    page = await read(admin, f"{PAGE}/{letter}")
    facts = page.text
    assert "At most 4 attempts, 2 s, 4 s, 8 s apart." in facts
    assert "min(120, 2 · 2^(failures - 1)) s, jitter ±25%" in facts
    assert found.idempotency_key in facts
    assert f"/app/admin/runs/{found.run_id}" in page.links
    assert "/app/admin/dlq?q=queue:default" in page.links
    assert any(each.startswith("/app/admin/dlq/groups/v1%3A") for each in page.links)
    assert "Grouped by the same call path" in facts


async def test_only_addresses_of_the_web_are_links(house: House, admin: httpx.AsyncClient) -> None:
    letter = await house.dead_letter()
    good = "https://runbooks.example/bank?x=1"
    await altered(house, letter, runbook=good)
    [link] = (await read(admin, f"{PAGE}/{letter}")).find("a", href=good)
    assert "noreferrer" in link.attributes["rel"]
    assert "noopener" in link.attributes["rel"]
    for bad in (
        "javascript:alert(1)",
        "data:text/html,x",
        "//evil.example",
        "see the wiki",
        "https:",
        "http://[",
    ):
        await altered(house, letter, runbook=bad)
        page = await read(admin, f"{PAGE}/{letter}")
        assert bad not in page.links
        assert bad in page.text
        assert web_address(bad) == ""


async def test_every_attempt_is_there_and_two_can_be_compared(house: House, admin: httpx.AsyncClient) -> None:
    letter = await _stubborn(house)
    failures = house.app.failures(by="ada")
    await failures.replay(letter, reason="once more")
    await house.work()
    page = await read(admin, f"{PAGE}/{letter}")
    [table] = [each for each in page.find("table") if "cards" in each.attributes.get("class", "")]
    numbers = [each.attributes["value"] for each in page.find("input", name="compare")]
    assert numbers == ["6", "5", "4", "3", "2", "1"]
    assert table.text.count("replay 1") == 3
    details = [folded.text for folded in page.find("details", class_="computed")]
    assert "All 3 attempts are used up" in table.text
    assert not any("used up" in text for text in details), "they add to the reason, which stands before them"
    assert not page.find("section", id="compare")
    page = await read(admin, f"{PAGE}/{letter}?compare=2&compare=5")
    [compared] = page.find("section", id="compare")
    assert compared.text.startswith("Attempt 2 compared with attempt 5")
    differing = [each.text for each in page.find("tr", class_="differs")]
    assert any(each.startswith("Message differs try 2 try 5") for each in differing)
    signs = {each.attributes["class"]: each.text for each in page.find("span") if "class" in each.attributes}
    assert "try 2" in signs["minus"]
    assert "try 5" in signs["plus"]


@pytest.mark.parametrize("asked", ["1", "1,9", "a,b", ",,", "1,2,3", EVIL, "1" * 90])
async def test_the_page_says_what_cannot_be_compared(small_house: House, asked: str) -> None:
    letter = await _stubborn(small_house)
    client = await small_house.keyed("VIEWER")
    answer = await client.get(f"{PAGE}/{letter}", params={"compare": asked})
    page = Reading(answer.text)
    assert answer.status_code == 200
    assert any("compare" in each.text for each in page.find("p", role="alert"))
    assert not page.find("section", id="compare")
    assert "<img" not in answer.text


async def test_its_history_in_one_list(house: House, admin: httpx.AsyncClient) -> None:
    letter, other = await house.dead_letter(1), await house.dead_letter(2)
    failures = house.app.failures(by="ada")
    await failures.assign(letter, "ben")
    await failures.tag([letter, other], ["vip"])
    await failures.note(letter, "the bank is back\nsince ten")
    await failures.replay(letter, reason="after the fix")
    await house.work()
    await failures.link(letter, other)
    await failures.reveal(letter, reason="to compare")
    await failures.resolve(letter, "paid by hand")
    await failures.reopen(letter, "not so")
    page = await read(admin, f"{PAGE}/{letter}")
    [history] = page.find("section", id="history")
    told = [
        "ada reopened it",
        "not so",
        "ada resolved it",
        "paid by hand",
        "ada revealed its payload",
        "to compare",
        f"ada made it depend on {other}",
        "ada replayed it Failed",
        "after the fix",
        "ada added a note",
        "the bank is back since ten",
        "ada tagged it and 1 other",
        "+vip",
        "ada assigned it to ben",
        "redrive created the dead letter",
    ]
    places = [history.text.index(each) for each in told]
    assert places == sorted(places)
    assert f"{PAGE}/{other}" in page.links


async def test_a_letter_whose_run_is_gone_is_still_shown(house: House, admin: httpx.AsyncClient) -> None:
    letter = await house.dead_letter()
    await altered(house, letter, run_id="gone")
    page = await read(admin, f"{PAGE}/{letter}")
    assert "No attempts stored" in page.text
    assert "the card of 7 was declined" in page.text


async def test_damaged_fields_do_not_hide_the_rest(house: House, admin: httpx.AsyncClient) -> None:
    letter = await house.dead_letter()
    broken = dict.fromkeys(("payload", "config", "policy", "tags", "metadata", "redrive_policy"), "{no")
    await altered(house, letter, **broken)
    page = await read(admin, f"{PAGE}/{letter}")
    assert "it was damaged or changed after it was stored" in page.text
    assert "the card of 7 was declined" in page.text


async def test_a_foreign_stack_is_shown_as_it_is(house: House, admin: httpx.AsyncClient) -> None:
    letter = await house.dead_letter()
    java = "java.lang.IllegalStateException: no\n\tat com.example.Shop.charge(Shop.java:12)"
    await altered(house, letter, stack=java)
    page = await read(admin, f"{PAGE}/{letter}")
    assert [each.text for each in page.find("pre", class_="raw-text")] == [" ".join(java.split())]


async def test_a_stand_alone_letter_has_a_page(house: House, admin: httpx.AsyncClient) -> None:
    queue = DeadLetterQueue("sqlite://:memory:", lambda task: None, log=False)
    rewire(queue.app, parts_of(house.app).database, parts_of(house.app).clock, parts_of(house.app).random)
    await queue.enqueue("mail-7", {"to": "ana"}, error="unreachable")
    [line] = (await house.app.failures().list()).lines
    page = await read(admin, f"{PAGE}/{line.id}")
    assert page.find("h1")[0].text == "unreachable"
    assert "No traceback" in page.text


async def test_a_large_payload_does_not_make_a_large_page(house: House, admin: httpx.AsyncClient) -> None:
    rows = [{"id": number, "text": "x" * 40} for number in range(15_000)]
    letter = await house.dead_letter({"rows": rows})
    answer = await admin.get(f"{PAGE}/{letter}")
    assert answer.status_code == 200
    assert len(answer.content) < 250_000
    assert f'href="{API}/{letter}/payload"' in answer.text
    assert "Open as JSON" in answer.text


# Which role may do what


async def test_where_nothing_is_redacted_there_is_nothing_to_reveal(
    house: House, admin: httpx.AsyncClient
) -> None:
    letter = await house.dead_letter({"order": 7})
    page = await read(admin, f"{PAGE}/{letter}")
    assert "reveal" not in verbs(page, letter)
    assert "Reveal… Nothing is redacted" in page.text


async def test_a_replay_that_is_unlikely_to_work_is_not_the_first_offer(
    house: House, admin: httpx.AsyncClient
) -> None:
    letter = await house.dead_letter(work="order")
    page = await read(admin, f"{PAGE}/{letter}")
    assert "A replay is unlikely to succeed" in page.text
    assert [each.attributes["class"] for each in page.find("a", data_key="r")] == ["button"]


@pytest.mark.parametrize(
    ("role", "may"),
    [
        ("VIEWER", set[str]()),
        ("STAFF", {"assign", "tags", "notes"}),
        ("ADMIN", {"assign", "tags", "notes", "resolve", "ignore", "archive", "reveal"}),
        ("OWNER", {"assign", "tags", "notes", "resolve", "ignore", "archive", "reveal"}),
    ],
)
async def test_actions_that_a_role_may_never_do_are_absent(house: House, role: str, may: set[str]) -> None:
    """W12."""
    letter = await house.dead_letter({"order": 7, "password": "hunter2"})
    page = await read(await house.keyed(role), f"{PAGE}/{letter}")
    assert verbs(page, letter) == may
    operates = role in ("ADMIN", "OWNER")
    assert replays(page) == ([f"/app/admin/replays/new?ids={letter}"] if operates else [])
    copied = [each.attributes.get("data-copy") for each in page.find("button")]
    assert (f"redrive dlq replay {letter}" in copied) is operates
    assert any("/replays/new" in each for each in page.links) is operates


@pytest.mark.parametrize(
    ("state", "may", "word"),
    [
        ("OPEN", {"resolve", "ignore", "archive"}, "Open: needs you"),
        ("EXHAUSTED", {"resolve", "ignore", "archive"}, "Exhausted: needs you"),
        ("REPLAYING", set[str](), "Heals itself"),
        ("RESOLVED", {"reopen"}, "No action needed"),
        ("IGNORED", {"reopen"}, "No action needed"),
        ("ARCHIVED", {"reopen"}, "No action needed"),
    ],
)
async def test_an_action_that_is_unavailable_now_has_a_reason(
    house: House, admin: httpx.AsyncClient, state: str, may: set[str], word: str
) -> None:
    letter = await house.dead_letter({"order": 7, "password": "hunter2"})
    await altered(house, letter, state=state)
    page = await read(admin, f"{PAGE}/{letter}")
    assert verbs(page, letter) == may | {"assign", "tags", "notes", "reveal"}
    [head] = page.find("section", id="letter-head")
    assert word in head.text
    assert state.capitalize() in head.text
    disabled = [each for each in page.find("button") if "disabled" in each.attributes]
    if state in ("OPEN", "EXHAUSTED"):
        assert replays(page)
        assert not disabled
        return
    assert not replays(page)
    assert disabled
    [reason] = page.find("p", id="obstacle")
    assert {each.attributes["title"] for each in disabled} == {reason.text}
    assert ("Wait for the outcome" if state == "REPLAYING" else "Reopen it") in reason.text


async def test_a_letter_that_waits_for_another_is_not_replayed(
    house: House, admin: httpx.AsyncClient
) -> None:
    letter, other = await house.dead_letter(1), await house.dead_letter(2)
    letters = house.app.failures()
    await letters.link(letter, other)
    page = await read(admin, f"{PAGE}/{letter}")
    assert not replays(page)
    assert "It depends on a dead letter that is not resolved yet" in page.text
    assert f"{PAGE}/{other}" in page.links
    await letters.resolve(other)
    assert replays(await read(admin, f"{PAGE}/{letter}"))


async def test_a_change_applies_to_the_version_that_was_shown(house: House, admin: httpx.AsyncClient) -> None:
    """Each change names the version that the page shows, and can be undone."""
    letter = await house.dead_letter()
    version = version_of(await letter_of(house, letter))
    page = await read(admin, f"{PAGE}/{letter}")
    for verb in ("resolve", "ignore", "archive"):
        [form] = page.find("form", data_action=f"POST {API}/{letter}/{verb}")
        assert form.attributes["data-match"] == version
        assert form.attributes["data-undo"] == f"POST {API}/reopen"
        assert json.loads(form.attributes["data-undo-body"]) == {"ids": [letter]}
    for form in page.find("form", data_action=f"POST {API}/{letter}/assign"):
        assert form.attributes["data-match"] == version
        assert json.loads(form.attributes["data-undo-body"]) == {"name": None}
    matching = {"If-Match": f'"{version}"'}
    await admin.post(f"{API}/{letter}/assign", json={"name": "ben"})
    stale = await admin.post(f"{API}/{letter}/resolve", json={}, headers=matching)
    assert (stale.status_code, stale.json()["code"]) == (412, "changed")


async def test_effects_that_may_repeat_are_warned_of(house: House, admin: httpx.AsyncClient) -> None:
    letter = await house.dead_letter()
    assert "Careful:" not in (await read(admin, f"{PAGE}/{letter}")).text
    await altered(house, letter, effect="unsafe", may_have_executed=1)
    page = await read(admin, f"{PAGE}/{letter}")
    assert page.text.count("a replay may repeat that") == 1
    assert "Careful: the step may have taken effect already" in page.text


# Callers without access, and missing pages


async def test_a_missing_page_has_the_look_of_the_pages(house: House, admin: httpx.AsyncClient) -> None:
    """W13: a dead letter of another organization is missing, too."""
    await house.organization("acme")
    foreign = await house.dead_letter(org="acme")
    for letter in ("nothing", foreign, "%3Cscript%3E", "a%00b", "%ff"):
        answer = await admin.get(f"{PAGE}/{letter}")
        assert answer.status_code == 404, letter
        assert "Not found" in answer.text
        assert "<script>alert" not in answer.text
    stranger = await house.client().get(f"{PAGE}/{foreign}?compare=1,2")
    assert stranger.status_code == 303
    assert stranger.headers["location"].startswith("/app/sign-in?next=/app/admin/dlq/")
    assert (await admin.get(f"{PAGE}/{foreign}?unknown=1")).status_code in (400, 422)


async def test_stored_values_stay_text(house: House, admin: httpx.AsyncClient) -> None:
    """Security baseline: no stored text becomes markup, in any field."""
    letter, other = await house.dead_letter({EVIL: EVIL, "long": EVIL * 9}), await house.dead_letter(2)
    failures = house.app.failures(by=EVIL)
    await failures.note(letter, EVIL)
    await failures.tag([letter, other], [EVIL])
    await failures.link(letter, other)
    frame = f'Traceback (most recent call last):\n  File "{EVIL}", line 3, in {EVIL}\n    {EVIL}\nE: {EVIL}'
    await altered(house, letter, **dict.fromkeys(TEXTS, EVIL) | {"stack": frame})
    await altered(house, other, **dict.fromkeys(TEXTS, EVIL))
    hostile = json.dumps({EVIL: [EVIL, {"$sealed": EVIL}]})
    await altered(house, letter, config=hostile, metadata=hostile, tags=json.dumps([EVIL]))
    for path in (f"{PAGE}/{letter}", f"{PAGE}/{letter}?compare={EVIL}", f"{PAGE}/{other}"):
        answer = await admin.get(path)
        assert answer.status_code == 200
        page = Reading(answer.text)
        assert not page.find("img")
        assert "alert(1)" not in "".join(each.text for each in page.find("script"))
        assert "49" not in page.find("h1")[0].text
        assert not [each for each in page.elements if any(name.startswith("on") for name in each.attributes)]
        assert not [each for each in page.elements if "style" in each.attributes]
        assert not [each for each in page.links if not each.startswith(("/", "#"))]
        assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert EVIL in page.text


async def test_changed_attempts_are_text_too(house: House, admin: httpx.AsyncClient) -> None:
    letter = await _stubborn(house)
    for name in ("worker", "code_version", "category", "error_type", "message", "decision", "stack"):
        await ask(parts_of(house.app).database, f"UPDATE redrive.attempts SET {name} = :value", value=EVIL)
    answer = await admin.get(f"{PAGE}/{letter}?compare=1,3")
    assert answer.status_code == 200
    assert not Reading(answer.text).find("img")


# Wording


def test_a_policy_in_words() -> None:
    assert describe_stored_policy(None) == ()
    assert describe_stored_policy("null") == ()
    assert describe_stored_policy('{"name": 1}') == ()


async def test_a_ticket_contains_the_important_facts(small_house: House) -> None:
    letter = await small_house.dead_letter()
    failures = small_house.app.failures()
    found, verdict = await failures.view(letter), await failures.verdict(letter)
    text = "\n".join(ticket_lines(found, verdict, stack_of(found.stack), "https://redrive.example/x"))
    assert text.startswith("## the card of 7 was declined\n")
    assert "charge › charge · open · unknown · redrive.errors.FinalError" in text
    assert "A replay is unlikely to succeed. A replay will fail again" in text
    assert "house.py:37` in `charge`" in text
    assert "https://redrive.example/x" in text
    assert f"redrive dlq view {letter}" in text


async def _stubborn(house: House) -> str:
    """Fail three times, each time with a different message."""
    soon = RetryPolicy(max_attempts=3, backoff=Backoff(Immediate()))
    tries = iter(range(1, 100))
    if "stubborn" not in parts_of(house.app).registry.tasks:

        @house.app.task(retry=soon)
        async def stubborn() -> None:
            raise RetryableError(f"try {next(tries)}")

    run = await house.app.start("stubborn")
    for _ in range(100):
        await house.work()
        letter = await run.dead_letter()
        if letter is not None:
            return letter.id
        await asyncio.sleep(0.01)
    raise AssertionError


async def test_a_plan_that_never_started_is_not_called_a_replay(
    house: House, admin: httpx.AsyncClient
) -> None:
    """The history listed "Replayed it" twice for plans that were never started."""
    letter = await house.dead_letter()
    plans = house.app.failures().plans
    for _ in range(2):
        await plans.cancel((await plans.create(ids=[letter], reason="to see what would run")).operation_id)
    page = await read(admin, f"{PAGE}/{letter}")
    [history] = page.find("section", id="history")
    assert "planned a replay Cancelled" in history.text
    assert "replayed it" not in history.text
