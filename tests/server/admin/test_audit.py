"""The audit page (W16)."""

from __future__ import annotations

from tests.server.admin.reading import read
from tests.server.house import House

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


async def test_entries_link_to_their_subjects(house: House) -> None:
    client, letter = await house.keyed("VIEWER"), await house.dead_letter()
    page = await read(client, "/app/admin/audit")
    assert f"/app/admin/dlq/{letter}" in page.links
    assert "Created a dead letter" in page.text
    assert "dead_letter.moved" not in page.text
    assert "POST /api/v1/audit/verify" in page.actions


async def test_a_bulk_replay_is_one_row_with_its_entries_behind_it(house: House) -> None:
    for _ in range(3):
        await house.dead_letter()
    failures = house.app.failures(by="carla")
    plan = await failures.plans.create(query="is:open", reason="the bank is back")
    await failures.plans.start(plan.operation_id)
    for _ in range(3):
        await house.work()
    page = await read(await house.keyed("VIEWER"), "/app/admin/audit")
    texts = [each.text for each in page.find("tr", data_row="")]
    [row] = [text for text in texts if text.startswith("Bulk replay: 3 replayed")]
    assert "carla" in row
    assert "the bank is back" in row
    assert "Planned a bulk replay" in row
    assert not [text for text in texts if text.startswith(("Planned", "Started", "Replay", "Finished"))]
    assert f"/app/admin/replays/{plan.operation_id}" in page.links


async def test_times_among_the_details_are_shown_as_times(house: House) -> None:
    client, keys = await house.keyed("VIEWER"), house.app.members().keys
    await keys.create("for a day", "VIEWER", expires_in=90_000.0)
    page = await read(client, "/app/admin/audit?action=key.created")
    [expires] = [each for each in page.find("time") if each.attributes.get("title") == "in 1 d"]
    assert expires.text.endswith(" UTC")


async def test_steps_are_counted_from_1(house: House) -> None:
    letter = await house.dead_letter({"order": 7}, work="order")
    await house.app.failures(by="carla").replay(letter)
    page = await read(await house.keyed("VIEWER"), "/app/admin/audit?action=replay.requested")
    assert "step 2" in page.text
    assert "from_step" not in page.text


async def test_filters_narrow_it_and_an_unknown_action_is_reported_at_its_field(house: House) -> None:
    client = await house.keyed("VIEWER")
    failures = house.app.failures(by="carla")
    await failures.resolve(await house.dead_letter(), "because")
    found = await read(client, "/app/admin/audit?actor=carla&action=dead_letter.resolved&since=1h")
    assert "because" in found.text
    assert "dead_letter.moved" not in [each.text for each in found.find("td")]
    assert "No matches" in (await read(client, "/app/admin/audit?actor=nobody")).text
    wrong = await read(client, "/app/admin/audit?action=dead_letter.resolvd", 422)
    assert "Action must be one of" in wrong.find("p", role="alert")[0].text


async def test_pages_continue_where_the_last_one_ended(house: House) -> None:
    client = await house.keyed("VIEWER")
    letter = await house.dead_letter()
    for number in range(1, 60):
        failures = house.app.failures(by=f"person {number}")
        await failures.note(letter, "said")
    first = await read(client, "/app/admin/audit?action=dead_letter.noted")
    [onwards] = [each for each in first.find("a") if each.attributes.get("rel") == "next"]
    second = await read(client, onwards.attributes["href"])
    people = [each.text for page in (first, second) for each in page.find("td", class_="tight break actor")]
    assert sorted(people) == sorted(f"person {number}" for number in range(1, 60))


async def test_the_name_of_an_actor_stays_text(house: House) -> None:
    client = await house.keyed()
    failures = house.app.failures(by=EVIL[:60])
    await failures.resolve(await house.dead_letter(), EVIL)
    answer = await client.get("/app/admin/audit")
    assert "<script>alert" not in answer.text
    assert "<img" not in answer.text
