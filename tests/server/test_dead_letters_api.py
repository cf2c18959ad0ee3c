"""Dead letters over HTTP: finding, reading and changing them (W8, W12, W13, W14, W16, M6, M12)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.server.house import House
from tests.server.openapi_check import truthful
from tests.store.letters import alter

from redrive.dead_letter_queue import DeadLetterQueue
from redrive.errors import FinalError
from redrive.parts import parts_of, rewire

SECRET = "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
LETTERS = "/api/v1/dead-letters"
ALIAS = "/api/v1/workflow-dlq"
HOSTILE = ("nothing", "%00", "a%00b", "%ED%A0%80", "%F0%9F%92%A5", "'%20OR%201=1--", "%0A", "..%2Fx", "%25s")
LOOKS = ("", "/payload", "/history", "/verdict", "/notes", "/dependencies", "/attempts")
CHANGES: dict[str, Any] = {
    "resolve": {},
    "ignore": {},
    "archive": {},
    "reopen": {},
    "assign": {"name": "ben"},
    "tags": {"add": ["x"]},
    "notes": {"text": "seen"},
    "reveal": {"reason": "to see"},
    "replay": {},
    "dependencies": {"depends_on": "another"},
}
UNASKABLE: tuple[dict[str, Any], ...] = (
    {"q": "stat:open"},
    {"q": 'is:open "'},
    {"cursor": "nonsense"},
    {"cursor": "W10="},
    {"size": 0},
    {"size": 501},
    {"order": "random"},
    {"q": "x" * 2001},
    {"page": 2},
)
BATCHES: dict[str, Any] = {"assign": {"name": "ben"}, "tags": {"add": ["x"]}}
MALFORMED = (
    "abc",
    '"abc',
    '"a" "b"',
    "",
    "W/",
    '"a",',
)
REFUSED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/resolve", {}),
    ("/resolve", {"ids": []}),
    ("/resolve", {"ids": ["a"], "query": "is:open", "expect": 1}),
    ("/resolve", {"ids": ["a"], "expect": 1}),
    ("/resolve", {"ids": ["a"], "query": "is:open"}),
    ("/resolve", {"query": "is:open"}),
    ("/resolve", {"query": "is:open", "expect": 0}),
    ("/resolve", {"query": "is:open", "expect": 10_001}),
    ("/resolve", {"ids": ["a"], "state": "OPEN"}),
    ("/resolve", {"ids": ["a"], "reason": "x" * 2001}),
    ("/resolve", {"ids": ["a" * 201]}),
    ("/resolve", {"ids": "a"}),
    ("/tags", {"ids": ["a"]}),
    ("/tags", {"ids": ["a"], "add": ["x" * 101]}),
    ("/assign", {"ids": ["a"]}),
    ("/clear", {"queue": "default", "expect": 0, "confirm": "clear"}),
    ("/clear", {"queue": "dlq:default", "expect": 0, "confirm": "yes"}),
    ("/clear", {"queue": "dlq:default", "confirm": "clear"}),
    ("/a/resolve", {"reason": 7}),
    ("/a/resolve", {"reason": "", "org": "acme"}),
    ("/a/assign", {}),
    ("/a/assign", {"name": "two\nlines"}),
    ("/a/tags", {}),
    ("/a/notes", {"text": ""}),
    ("/a/notes", {"text": "x" * 10_001}),
    ("/a/notes", {"text": "bell\x07"}),
    ("/a/reveal", {}),
)


class World:
    def __init__(self, house: House, owner: httpx.AsyncClient) -> None:
        self.house = house
        self.owner = owner

    async def client(self, role: str, org: str = "default") -> httpx.AsyncClient:
        return truthful(await self.house.keyed(role, org), self.house.api)

    async def letter(self, payload: Any = 7, org: str = "default", work: str = "charge") -> str:
        return await self.house.dead_letter(payload, org, work)

    async def everything(self) -> list[Any]:
        """Everything that a rejected change must not alter."""
        desks = [self.house.app.failures(org=org) for org in ("default", "acme")]
        letters = [(await each.list("is:any")).lines for each in desks]
        return [letters, [await each.audit.head() for each in desks]]

    async def state(self, letter_id: str) -> str:
        return str((await self.owner.get(f"{LETTERS}/{letter_id}")).json()["state"])


@pytest.fixture
async def world(house: House) -> AsyncIterator[World]:
    async with truthful(await house.keyed("OWNER"), house.api) as owner:
        yield World(house, owner)


async def test_they_are_found_by_a_query_page_by_page_under_both_spellings(world: World) -> None:
    ids = [await world.letter(number) for number in range(3)]
    await world.owner.post(f"{LETTERS}/{ids[0]}/resolve")
    first = (await world.owner.get(LETTERS, params={"q": "is:open", "size": 1})).json()
    second = (await world.owner.get(ALIAS, params={"q": "is:pending", "cursor": first["next_cursor"]})).json()
    assert [each["id"] for each in first["items"] + second["items"]] == ids[:0:-1]
    assert second["next_cursor"] is None
    oldest = await world.owner.get(LETTERS, params={"q": "is:any", "order": "oldest"})
    assert [each["id"] for each in oldest.json()["items"]] == ids
    counted = await world.owner.get(f"{LETTERS}/count", params={"q": "is:resolved"})
    assert counted.json() == {"number": 1, "capped": False}


async def test_invalid_parameters_are_rejected(small_house: House) -> None:
    async with truthful(await small_house.keyed("VIEWER"), small_house.api) as client:
        for parameters in UNASKABLE:
            assert (await client.get(LETTERS, params=parameters)).status_code == 422, parameters


async def test_pages_are_as_large_as_the_settings_say(small_house: House) -> None:
    for number in range(3):
        await small_house.dead_letter(number)
    object.__setattr__(parts_of(small_house.app).settings, "server_page_size", 2)
    async with truthful(await small_house.keyed("VIEWER"), small_house.api) as client:
        for address in (LETTERS, "/api/v1/audit"):
            found = (await client.get(address, params={"size": 500})).json()
            assert len(found["items"]) == 2
            assert found["next_cursor"]


async def test_every_view_of_a_letter_is_without_its_secrets(world: World) -> None:
    """W8, W14, I9."""
    letter = await world.letter({"order": 7, "password": SECRET})
    address = f"{LETTERS}/{letter}"
    viewer = await world.client("VIEWER")
    answers = [await viewer.get(address + look) for look in LOOKS]
    assert [each.status_code for each in answers] == [200] * len(LOOKS)
    assert not any(SECRET in each.text for each in answers)
    whole, payload, history, verdict, notes, dependencies, attempts = [each.json() for each in answers]
    assert (whole["id"], whole["state"], whole["task"], whole["tags"]) == (letter, "OPEN", "charge", [])
    assert whole["policy"]["max_attempts"] == 4
    assert payload["payload"]["order"] == 7
    assert [each["action"] for each in history["entries"]] == ["dead_letter.moved"]
    assert verdict["why"]["text"].startswith("It stopped after 1 attempt with redrive.errors.FinalError")
    assert (notes["items"], dependencies["items"]) == ([], [])
    assert [(each["number"], each["outcome"]) for each in attempts["items"]] == [(1, "failed")]


async def test_a_traceback_of_python_is_also_given_as_exceptions_with_frames(world: World) -> None:
    @world.house.app.task
    async def parse(text: str) -> None:
        try:
            json.loads(text)
        except ValueError as error:
            raise FinalError("the text is no JSON") from error

    letter_id = await world.letter("{", work="parse")
    letter = (await world.owner.get(f"{LETTERS}/{letter_id}")).json()
    caught, cause = letter["exceptions"]
    assert caught["message"] == "redrive.errors.FinalError: the text is no JSON"
    assert (caught["relation"], cause["relation"]) == ("", "caused_by")
    assert cause["message"].startswith("json.decoder.JSONDecodeError: ")
    [frame] = caught["frames"]
    assert (frame["file"], frame["function"], frame["application"]) == (__file__, "parse", True)
    assert frame["code"] == ['raise FinalError("the text is no JSON") from error']
    assert f'File "{__file__}", line {frame["line"]}, in parse' in letter["stack"]
    own = [(frame["function"], frame["application"]) for frame in cause["frames"]]
    assert own[0] == ("raw_decode", False)
    assert ("parse", True) in own
    for path in (f"{LETTERS}/{letter_id}/attempts", f"/api/v1/runs/{letter['run_id']}/attempts"):
        [attempt] = (await world.owner.get(path)).json()["items"]
        assert attempt["exceptions"] == letter["exceptions"]
    [line] = (await world.owner.get(LETTERS)).json()["items"]
    assert "exceptions" not in line


async def test_a_traceback_of_another_language_is_only_a_text(world: World) -> None:
    letter_id = await world.letter()
    foreign = "java.lang.IllegalStateException: closed\n\tat shop.Pay.charge(Pay.java:7)"
    await alter(parts_of(world.house.app).database, letter_id, stack=foreign)
    letter = (await world.owner.get(f"{LETTERS}/{letter_id}")).json()
    assert (letter["stack"], letter["exceptions"]) == (foreign, [])


async def test_attempts_are_those_of_the_failed_step(world: World) -> None:
    letter = await world.letter("ana", work="order")
    found = (await world.owner.get(f"{LETTERS}/{letter}/attempts")).json()["items"]
    assert [(each["step_index"], each["error_type"]) for each in found] == [(1, "redrive.errors.FinalError")]


async def test_a_payload_is_revealed_for_a_reason_that_the_audit_keeps(world: World) -> None:
    letter = await world.letter({"password": SECRET})
    address = f"{LETTERS}/{letter}/reveal"
    admin = await world.client("ADMIN")
    assert (await admin.post(address, json={"reason": ""})).status_code == 422
    kept = await admin.post(address, json={"reason": "case 12"}, headers={"Idempotency-Key": "once"})
    assert (kept.status_code, kept.json()["code"]) == (400, "key_not_taken")
    assert (await admin.post(address, json={"reason": "case 12"})).json() == {"payload": {"password": SECRET}}
    [entry, *_] = (await admin.get(f"{LETTERS}/{letter}/history")).json()["entries"]
    assert (entry["action"], entry["detail"]["reason"]) == ("dead_letter.revealed", "case 12")
    assert SECRET not in str(entry)


async def test_a_letter_is_changed_only_if_its_version_is_current(world: World) -> None:
    letter = await world.letter()
    address = f"{LETTERS}/{letter}"
    read = (await world.owner.get(address)).headers["ETag"]
    assert read == f'"{(await world.owner.get(LETTERS)).json()["items"][0]["version"]}"'
    tagged = await world.owner.post(f"{address}/tags", json={"add": ["vip"]}, headers={"If-Match": read})
    assert (tagged.status_code, tagged.json()["tags"]) == (200, ["vip"])
    before = await world.everything()
    for how in ("resolve", "ignore", "archive", "reopen", "assign", "tags"):
        for stale in (read, f"W/{tagged.headers['ETag']}", '"x", "y"'):
            late = await world.owner.post(f"{address}/{how}", json=CHANGES[how], headers={"If-Match": stale})
            assert (late.status_code, late.json()["code"]) == (412, "changed")
    assert await world.everything() == before
    one_of = {"If-Match": f"{read}, {tagged.headers['ETag']}"}
    resolved = await world.owner.post(f"{address}/resolve", json={"reason": "paid"}, headers=one_of)
    assert (resolved.json()["state"], resolved.json()["resolution"]) == ("RESOLVED", "paid")
    undone = await world.owner.post(f"{address}/reopen", headers={"If-Match": resolved.headers["ETag"]})
    assert undone.json()["state"] == "OPEN"
    assert (await world.owner.post(f"{address}/ignore", headers={"If-Match": "*"})).status_code == 200


async def test_the_first_of_two_callers_with_the_same_version_succeeds(world: World) -> None:
    address = f"{LETTERS}/{await world.letter()}"
    read = {"If-Match": (await world.owner.get(address)).headers["ETag"]}
    both = [world.owner.post(f"{address}/{how}", headers=read) for how in ("resolve", "ignore", "archive")]
    assert sorted([each.status_code for each in await asyncio.gather(*both)]) == [200, 412, 412]
    entries = (await world.owner.get(f"{address}/history")).json()["entries"]
    assert len(entries) == 2


async def test_a_malformed_condition_is_no_condition_that_holds(small_house: House) -> None:
    letter = await small_house.dead_letter()
    async with truthful(await small_house.keyed(), small_house.api) as client:
        for header in MALFORMED:
            answer = await client.post(f"{LETTERS}/{letter}/resolve", headers={"If-Match": header})
            assert (answer.status_code, answer.json()["code"]) == (400, "malformed_if_match"), header
        assert (await client.get(f"{LETTERS}/{letter}")).json()["state"] == "OPEN"


async def test_a_closed_letter_cannot_be_closed_again(world: World) -> None:
    letter = await world.letter()
    for how, state in (("resolve", "RESOLVED"), ("ignore", "IGNORED"), ("archive", "ARCHIVED")):
        done = await world.owner.post(f"{LETTERS}/{letter}/{how}", json={"reason": how})
        assert (done.json()["state"], done.json()["resolved_by"]) == (state, done.json()["resolved_by"])
        again = await world.owner.post(f"{LETTERS}/{letter}/{how}")
        assert (again.status_code, again.json()["code"]) == (409, "wrong_state")
        assert (await world.owner.post(f"{LETTERS}/{letter}/reopen")).status_code == 200


async def test_staff_look_after_them_and_admins_decide(world: World) -> None:
    """W12."""
    letter = await world.letter()
    viewer, staff, admin = [await world.client(role) for role in ("VIEWER", "STAFF", "ADMIN")]
    for how, body in CHANGES.items():
        refused = await viewer.post(f"{LETTERS}/{letter}/{how}", json=body)
        assert refused.status_code == 403, how
    for how in ("resolve", "ignore", "archive", "reopen", "replay", "reveal", "dependencies"):
        assert (await staff.post(f"{LETTERS}/{letter}/{how}", json=CHANGES[how])).status_code == 403
    for path in ("resolve", "ignore", "archive", "reopen"):
        assert (await staff.post(f"{LETTERS}/{path}", json={"ids": [letter]})).status_code == 403
    clearing = {"queue": "dlq:default", "expect": 0, "confirm": "clear"}
    assert (await admin.post(f"{LETTERS}/clear", json=clearing)).status_code == 403
    assert (await staff.post(f"{LETTERS}/{letter}/assign", json={"name": "ben"})).status_code == 200
    assert (await staff.post(f"{LETTERS}/tags", json={"ids": [letter], "add": ["vip"]})).status_code == 200
    noted = await staff.post(f"{LETTERS}/{letter}/notes", json={"text": f"the key is {SECRET}"})
    assert noted.status_code == 201
    assert SECRET not in noted.text
    assert (await viewer.get(f"{LETTERS}/{letter}/notes")).json()["items"] == [noted.json()]
    shown = (await viewer.get(f"{LETTERS}/{letter}")).json()
    assert (shown["assignee"], shown["tags"]) == ("ben", ["vip"])
    assert (await admin.post(f"{LETTERS}/{letter}/resolve")).status_code == 200


async def test_many_are_changed_by_ids_or_by_a_query_with_an_expected_number(world: World) -> None:
    ids = [await world.letter(number) for number in range(4)]
    done = await world.owner.post(f"{LETTERS}/resolve", json={"ids": ids[:2], "reason": "paid"})
    assert done.json() == {"changed": 2}
    drifted = await world.owner.post(f"{LETTERS}/archive", json={"query": "is:open", "expect": 3})
    assert (drifted.status_code, drifted.json()["code"], drifted.json()["number"]) == (409, "drift", 2)
    done = await world.owner.post(f"{ALIAS}/ignore", json={"query": "is:open", "expect": 2})
    assert (done.json()["changed"], sorted(done.json()["ids"])) == (2, sorted(ids[2:]))
    assert (await world.owner.post(f"{LETTERS}/reopen", json={"ids": ids})).json() == {"changed": 4}
    for how in ("resolve", "ignore", "archive"):
        done = await world.owner.post(f"{LETTERS}/{how}", json={"query": "is:open", "expect": 4})
        assert (done.json()["changed"], sorted(done.json()["ids"])) == (4, sorted(ids))
        undone = await world.owner.post(f"{LETTERS}/reopen", json={"ids": done.json()["ids"]})
        assert undone.json() == {"changed": 4}
    assert (await world.owner.post(f"{LETTERS}/assign", json={"ids": ids, "name": None})).json() == {
        "changed": 4
    }


async def test_one_foreign_id_makes_a_whole_batch_not_found(world: World) -> None:
    """W13, I8: the batch changes nothing, and the response doesn't reveal whose letter it is."""
    await world.house.organization("acme")
    own, foreign = await world.letter(), await world.letter(org="acme")
    before = await world.everything()
    for how in ("resolve", "ignore", "archive", "reopen", "assign", "tags"):
        more = BATCHES.get(how, {})
        for other in (foreign, "nothing", "a\x00b"):
            answer = await world.owner.post(f"{LETTERS}/{how}", json={"ids": [own, other], **more})
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), (how, other)
    plan = await world.owner.post("/api/v1/operations", json={"ids": [own, foreign]})
    assert plan.status_code == 404
    assert await world.everything() == before


async def test_a_foreign_one_does_not_exist(world: World) -> None:
    """W13, I8."""
    await world.house.organization("acme")
    own, foreign = await world.letter(), await world.letter("CANARY", org="acme")
    before = await world.everything()
    answers = [await world.owner.get(f"{LETTERS}/{foreign}{look}") for look in LOOKS]
    for how, body in CHANGES.items():
        answers.append(await world.owner.post(f"{LETTERS}/{foreign}/{how}", json=body))
    link = {"depends_on": foreign}
    answers.append(await world.owner.post(f"{LETTERS}/{own}/dependencies", json=link))
    answers.append(await world.owner.delete(f"{LETTERS}/{own}/dependencies/{foreign}"))
    assert {each.status_code for each in answers} == {404}
    assert not any("CANARY" in each.text for each in answers)
    assert await world.everything() == before
    assert [each["id"] for each in (await world.owner.get(LETTERS)).json()["items"]] == [own]
    stranger = world.house.client()
    assert (await stranger.get(f"{LETTERS}/{own}")).status_code == 401


async def test_an_invalid_id_is_not_found(world: World) -> None:
    own = await world.letter()
    before = await world.everything()
    for text in HOSTILE:
        answers = [await world.owner.get(f"{LETTERS}/{text}{look}") for look in LOOKS]
        for how, body in CHANGES.items():
            answers.append(await world.owner.post(f"{LETTERS}/{text}/{how}", json=body))
        answers.append(await world.owner.delete(f"{LETTERS}/{own}/dependencies/{text}"))
        assert {each.status_code for each in answers} == {404}, text
    assert (await world.owner.get(f"{LETTERS}/{'x' * 201}")).status_code == 422
    assert await world.everything() == before


async def test_a_body_with_missing_or_extra_fields_is_rejected(small_house: House) -> None:
    async with truthful(await small_house.keyed(), small_house.api) as client:
        for path, body in REFUSED:
            assert (await client.post(LETTERS + path, json=body)).status_code == 422, (path, body)


async def test_one_waits_for_another(world: World) -> None:
    """M12."""
    first, second = await world.letter(1), await world.letter(2)
    address = f"{LETTERS}/{first}/dependencies"
    assert (await world.owner.post(address, json={"depends_on": second})).json() == {"changed": 1}
    assert (await world.owner.post(address, json={"depends_on": second})).json() == {"changed": 0}
    assert [each["id"] for each in (await world.owner.get(address)).json()["items"]] == [second]
    crosswise = await world.owner.post(f"{LETTERS}/{second}/dependencies", json={"depends_on": first})
    assert crosswise.status_code == 422
    assert (await world.owner.post(f"{LETTERS}/{first}/replay")).status_code == 409
    assert (await world.owner.delete(f"{address}/{second}")).json() == {"changed": 1}
    assert (await world.owner.delete(f"{address}/{second}")).json() == {"changed": 0}


async def test_a_stand_alone_queue_is_cleared_only_with_its_exact_number(world: World) -> None:
    """M6: destructive, and guarded."""
    letter, queue = await world.letter(), _stand_alone(world.house)
    for task in ("one", "two"):
        await queue.enqueue(task, {"to": "ana"}, error="unreachable")
    body: dict[str, Any] = {"queue": "dlq:default", "expect": 3, "confirm": "clear"}
    refused = await world.owner.post(f"{LETTERS}/clear", json=body)
    assert (refused.status_code, refused.json()["number"]) == (409, 2)
    found = await world.owner.get(f"{LETTERS}/count", params={"q": 'queue:"dlq:default"'})
    assert found.json()["number"] == 2
    done = await world.owner.post(f"{LETTERS}/clear", json={**body, "expect": 2})
    assert done.json() == {"changed": 2}
    assert [each["id"] for each in (await world.owner.get(LETTERS)).json()["items"]] == [letter]
    entries = await world.owner.get("/api/v1/audit", params={"action": "queue.cleared"})
    assert [each["detail"] for each in entries.json()["items"]] == [{"removed": 2}]


async def test_another_organizations_queue_is_not_cleared(world: World) -> None:
    """W13."""
    await world.house.organization("acme")
    queue = _stand_alone(world.house, org="acme")
    await queue.enqueue("one", {"to": "ana"}, error="unreachable")
    body = {"queue": "dlq:default", "expect": 0, "confirm": "clear"}
    assert (await world.owner.post(f"{LETTERS}/clear", json=body)).json() == {"changed": 0}
    assert await queue.size() == 1


async def test_ids_in_addresses_are_texts(world: World) -> None:
    """The server never interprets an id as anything but one whole segment of the path."""
    letter = await world.letter()
    assert (await world.owner.get(f"{LETTERS}/{quote(letter)}")).status_code == 200
    assert (await world.owner.get(f"{LETTERS}/{letter}/")).status_code == 404


def _stand_alone(house: House, org: str = "default") -> DeadLetterQueue:
    """Create a stand-alone queue on the same database. Closing the queue would close that database."""
    queue = DeadLetterQueue("sqlite://:memory:", lambda task: None, org=org, log=False)
    rewire(queue.app, parts_of(house.app).database, parts_of(house.app).clock, parts_of(house.app).random)
    return queue


async def test_m11_a_key_may_archive_but_not_replay_and_the_other_way_round(house: House) -> None:
    first, second = await house.dead_letter(1), await house.dead_letter(2)
    archivist = house.client(await house.key(role="ADMIN", scopes=["read", "archive"]))
    assert (await archivist.post(f"{LETTERS}/{first}/replay", json={})).status_code == 403
    assert (await archivist.post(f"{LETTERS}/{first}/resolve", json={})).status_code == 403
    assert (await archivist.post(f"{LETTERS}/{first}/archive", json={})).json()["state"] == "ARCHIVED"
    retrier = house.client(await house.key(role="ADMIN", scopes=["read", "retry"]))
    assert (await retrier.post(f"{LETTERS}/{second}/archive", json={})).status_code == 403
    assert (await retrier.post(f"{LETTERS}/archive", json={"ids": [second]})).status_code == 403
    assert (await retrier.post(f"{LETTERS}/{second}/replay", json={})).status_code == 202
