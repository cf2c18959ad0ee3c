"""Secrets that a client leaves in any field appear nowhere (I9).

No response, event, problem, metric or log line contains them, and no file on disk. The exceptions are
explicit: the input and results of a run in its own row, as long as no encryption key is configured; a payload
that an operator reveals for a reason; and a new credential, in the response that creates it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from tests.server.event_stream import bearing, listening
from tests.server.hostile import (
    SECRETS,
    everything_read,
    house_on,
    marks_in,
    secret_text,
    secret_value,
    surroundings,
)
from tests.server.house import ORIGIN, House
from tests.server.rows import all_rows

from redrive.errors import FinalError
from redrive.events import Event
from redrive.parts import parts_of
from redrive.settings import new_encryption_key

PASSWORD = "c4nary horse, my kingdom"
WORK = ("ready", "idle", "leases", "ended")
NEEDED = {
    *((table, column) for table in ("runs", "run_inputs") for column in ("input", "metadata")),
    *((table, "step_input") for table in ("runs", *WORK)),
    *((table, "result") for table in ("runs", "ended")),
    ("events", "payload"),
    ("attempts", "output"),
    ("payloads", "payload"),
}
"""Columns that runs need to execute; encrypted if a key is configured."""

NAMES = {
    (table, column)
    for table in ("runs", "run_inputs")
    for column in ("idempotency_key", "given_correlation_id", "correlation_id", "tags")
} | {("events", column) for column in ("dedupe_key", "source", "user_id")}
"""Columns that callers choose to find a run or an event by. Readers see them redacted."""

ONE = SECRETS["stripe"]


class Scene(NamedTuple):
    house: House
    path: Path
    sealed: bool
    owner: httpx.AsyncClient
    credentials: dict[str, str]


@pytest.fixture(params=["sqlite", "sqlite sealed", "postgres", "postgres sealed"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    kind, _, sealed = request.param.partition(" ")
    settings = {"encryption_keys": (new_encryption_key(),)} if sealed else {}
    async with house_on(request, kind, tmp_path, **settings) as house:
        _add_work(house)
        key = await house.key("OWNER", name="owner")
        yield Scene(house, tmp_path, bool(sealed), house.client(key), {"key": key})


def _add_work(house: House) -> None:
    @house.app.task
    async def burn(thing: Any = None) -> None:
        raise FinalError(f"it was refused with {secret_text()}, given {thing}")

    @house.app.task
    async def keep(thing: Any = None) -> Any:
        return thing

    @house.app.stream("things", "redis://localhost:1").projector("project")
    async def project(event: Event) -> None:
        pass


async def planted(scene: Scene, *, names: bool = False) -> None:
    """Send secrets in every field of every request."""
    owner, text, value = scene.owner, secret_text(), secret_value()
    named: dict[str, Any] = {"tags": [ONE, SECRETS["aws"]], "correlation_id": ONE} if names else {}
    header = {"Idempotency-Key": ONE} if names else {}
    for work in ("burn", "keep"):
        body = {"work": work, "payload": value, "metadata": value, **named}
        keyed = {name: f"{value}-{work}" for name, value in header.items()}
        assert (await owner.post("/api/v1/runs", json=body, headers=keyed)).status_code == 202
    await scene.house.work()
    [letter] = (await owner.get("/api/v1/dead-letters")).json()["items"]
    name = ONE if names else "1"
    event = Event(type="thing", payload=value, dedupe_key=name, source=name, user=name)
    await scene.house.app.events().record("things", [event])
    one, group = f"/api/v1/dead-letters/{letter['id']}", f"/api/v1/groups/{letter['fingerprint']}"
    sent: list[tuple[str, Any]] = [
        (f"{one}/notes", {"text": text}),
        (f"{one}/tags", {"add": [ONE], "remove": [SECRETS["aws"]]}),
        (f"{one}/assign", {"name": ONE}),
        (f"{one}/ignore", {"reason": text}),
        (f"{one}/reopen", {"reason": text}),
        (f"{group}/acknowledge", {"reason": text}),
        (f"{group}/ignore", {"reason": text, "version": ONE}),
        ("/api/v1/operations", {"ids": [letter["id"]], "reason": text}),
        ("/api/v1/operations", {"query": f"is:open {json.dumps(ONE)}", "reason": text}),
        (f"{one}/replay", {"reason": text, "payload": value}),
        ("/api/v1/queues/default/pause", {"reason": text}),
        ("/api/v1/queues/default/resume", None),
        ("/api/v1/organizations", {"name": "acme", "title": ONE}),
        ("/api/v1/keys", {"name": ONE, "role": "VIEWER"}),
    ]
    for path, body in sent:
        answer = await owner.post(path, json=body)
        assert answer.status_code in (200, 201, 202), (path, answer.text)
        assert not marks_in(answer.content), (path, surroundings(answer.content))
    await scene.house.work()


async def signed_in(scene: Scene) -> None:
    """Use credentials of every kind."""
    house, credentials = scene.house, scene.credentials
    await house.member("olga", PASSWORD)
    browser = await house.signed_in("olga", PASSWORD)
    credentials["session"] = browser.cookies["redrive_session"]
    credentials["csrf"] = browser.headers["X-CSRF-Token"]
    made = await browser.post("/api/v1/members/olga/link", json={})
    credentials["link"] = made.json()["url"].partition("#")[2]
    rotated = await browser.post("/api/v1/keys", json={"name": "rotated", "role": "STAFF"})
    credentials["rotated key"] = rotated.json()["text"]
    which = rotated.json()["key"]["id"]
    again = await browser.post(f"/api/v1/keys/{which}/rotate", json={"grace_seconds": 60})
    credentials["new key"] = again.json()["text"]
    credentials["password"] = PASSWORD
    wrong = {"name": "olga", "password": f"{PASSWORD}, not quite"}
    assert (await house.client(**ORIGIN).post("/api/v1/session", json=wrong)).status_code == 401
    if scene.sealed:
        [credentials["encryption key"]] = parts_of(house.app).settings.encryption_keys or ()


def found_in(scene: Scene, text: str) -> set[str]:
    """Return the secrets in a text, and parts of credentials long enough to use."""
    parts = {name: re.sub("^rdk_[0-9a-f]+_", "", value) for name, value in scene.credentials.items()}
    return marks_in(text) | {name for name, part in parts.items() if part in text}


async def test_no_response_contains_a_secret(scene: Scene) -> None:
    await planted(scene, names=True)
    await signed_in(scene)
    for role in ("VIEWER", "OWNER"):
        client = await scene.house.keyed(role)
        answers = await everything_read(scene.house, client)
        assert sum(each.status_code == 200 for each in answers) > 30
        for answer in answers:
            text = answer.text + str(answer.headers)
            assert not found_in(scene, text), (answer.url, surroundings(text))


async def test_no_event_contains_a_secret(scene: Scene) -> None:
    key = scene.credentials["key"]
    async with listening(scene.house, bearing(key), "after=0") as stream:
        await planted(scene, names=True)
        await signed_in(scene)
        await scene.owner.post("/api/v1/organizations", json={"name": "the last"})
        event = await stream.next("entry")
        while event is not None and "the last" not in event.text:
            event = await stream.next("entry")
        assert stream.everything.count(b"event: entry") > 15
        assert not found_in(scene, stream.everything.decode())


async def test_no_row_and_no_file_holds_a_secret(scene: Scene) -> None:
    """Except in the columns that runs need, while nothing is encrypted."""
    await planted(scene)
    await signed_in(scene)
    places = {
        (table, column): str(value)
        for table, rows in (await all_rows(scene.house.app)).items()
        for row in rows
        for column, value in row.items()
        if found_in(scene, str(value))
    }
    assert set(places) <= (set() if scene.sealed else NEEDED), places
    assert scene.sealed or ("runs", "input") in places
    if scene.sealed:
        for file in scene.path.glob("work.db*"):
            assert not found_in(scene, file.read_bytes().decode("latin-1")), file.name


async def test_only_names_of_runs_are_stored_unredacted(scene: Scene) -> None:
    """Tags, correlation ids and keys must stay searchable; no reader sees a secret in them."""
    await planted(scene, names=True)
    places = {
        (table, column)
        for table, rows in (await all_rows(scene.house.app)).items()
        for row in rows
        for column, value in row.items()
        if found_in(scene, str(value))
    }
    assert places <= NAMES | (set() if scene.sealed else NEEDED)


async def test_neither_the_log_nor_the_metrics_contain_a_secret(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("", *logging.root.manager.loggerDict):
        caplog.set_level(logging.DEBUG, name)
    await planted(scene, names=True)
    await signed_in(scene)
    await _refused(scene)
    metrics = await scene.owner.get("/metrics")
    assert "redrive" in metrics.text or "workflow" in metrics.text
    assert not found_in(scene, metrics.text)
    ours = [each for each in caplog.records if not each.name.startswith(("httpx", "httpcore"))]
    assert len(ours) > 20
    for record in ours:
        text = f"{record.getMessage()} {record.__dict__}"
        assert not found_in(scene, text), (record.name, surroundings(text))


async def test_no_problem_repeats_a_secret(scene: Scene) -> None:
    """Many messages repeat the name of a missing object, which may be a pasted secret."""
    for answer in await _refused(scene):
        assert answer.status_code >= 400, answer.url
        assert answer.json()["code"]
        assert not marks_in(answer.content), (answer.url, surroundings(answer.content))


async def _refused(scene: Scene) -> list[httpx.Response]:
    owner, text = scene.owner, secret_text()
    await owner.post("/api/v1/runs", json={"work": "keep"}, headers={"Idempotency-Key": ONE})
    posts: list[tuple[str, Any, dict[str, str]]] = [
        ("runs", {"work": ONE}, {}),
        ("runs", {"work": "keep", "queue": ONE}, {}),
        ("runs", {"work": "keep", "correlation_id": f"{ONE}\n"}, {}),
        ("runs", {"work": "keep", "at": ONE}, {}),
        ("runs", {"work": "keep", ONE: 1}, {}),
        ("runs", {"work": "keep", "payload": 2}, {"Idempotency-Key": ONE}),
        ("runs", {"work": "keep"}, {"Idempotency-Key": f'"{ONE}'}),
        (f"runs/{ONE}/cancel", {"reason": text}, {}),
        (f"dead-letters/{ONE}/resolve", {"reason": text}, {}),
        (f"dead-letters/{ONE}/replay", {"from_step": ONE}, {}),
        ("dead-letters/resolve", {"ids": [ONE]}, {}),
        ("dead-letters/resolve", {"query": f"is:{ONE}", "expect": 1}, {}),
        ("dead-letters/resolve", {"query": text, "expect": 1}, {}),
        ("dead-letters/clear", {"queue": f"dlq:{ONE}", "expect": 1, "confirm": "clear"}, {}),
        ("operations", {"query": f"bogus:{ONE}"}, {}),
        ("operations", {"ids": [ONE]}, {}),
        ("operations", {"group": ONE}, {}),
        (f"queues/{ONE}/pause", {"reason": text}, {}),
        (f"breakers/{ONE}/force", {"state": "OPEN", "reason": text}, {}),
        ("keys", {"name": text * 9, "role": ONE}, {}),
        ("keys", {"name": f"{ONE}\x1b", "role": "STAFF"}, {}),
        ("members", {"name": f"key:{ONE}", "role": "STAFF"}, {}),
        ("members", {"name": f"{ONE}\x00", "role": "STAFF"}, {}),
        ("organizations", {"name": f"{ONE}\n"}, {}),
        (f"members/{ONE}/link", {}, {}),
        ("audit/verify", {"head": ONE}, {}),
    ]
    gets = [
        *(
            f"{noun}/{ONE}"
            for noun in ("runs", "dead-letters", "groups", "operations", "replays", "keys", "members")
        ),
        f"breakers/{ONE}",
        *(
            f"{noun}?cursor={ONE}"
            for noun in ("runs", "dead-letters", "groups", "operations", "audit", "keys")
        ),
        *(f"{noun}?q=is:{ONE}" for noun in ("runs", "dead-letters")),
        *(f"{noun}?q={ONE}:1" for noun in ("runs", "dead-letters")),
        f"runs?{ONE}=1",
        f"audit?action={ONE}",
        f"audit?since={ONE}",
        f"{ONE}",
    ]
    answers = [
        await owner.post(f"/api/v1/{path}", json=body, headers=headers) for path, body, headers in posts
    ]
    return answers + [await owner.get(f"/api/v1/{path}") for path in gets]
