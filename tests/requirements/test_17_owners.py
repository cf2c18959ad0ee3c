"""Item 17: the owner of a run may retry it, and rates are limited per user (P8, P11, P12)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.engine.hand_clock import HandClock
from tests.engine.workbench import bench, new_app
from tests.server.admin.reading import read
from tests.server.house import House
from tests.store.build import ask

from redrive.app import Redrive
from redrive.errors import FinalError, InvalidValueError
from redrive.failures import failed_runs
from redrive.model.role import Role
from redrive.parts import parts_of
from redrive.policy.access import KEY, SESSION, Permission, Principal, may_retry, permitted
from redrive.server.limits import RequestLimits
from redrive.server.problem import ProblemError
from redrive.settings import Settings

RUNS, P8 = "/api/v1/runs", "/api/jobs"
PASSWORD = "a horse, a horse, my kingdom"


class Files:
    """A task whose source may be gone."""

    def __init__(self, app: Redrive) -> None:
        self.exists: Any = True

        @app.task(max_attempts=1, source=lambda _: self.look())
        async def convert(name: Any = None) -> None:
            raise FinalError("the disk is full")

    def look(self) -> bool:
        if isinstance(self.exists, Exception):
            raise self.exists
        return bool(self.exists)


@pytest.fixture
def files(house: House) -> Files:
    return Files(house.app)


@pytest.fixture
async def ana(house: House) -> httpx.AsyncClient:
    """Ana may only read."""
    await house.member("ana", PASSWORD, "VIEWER")
    return await house.signed_in("ana", PASSWORD)


async def failed(house: House, **options: Any) -> str:
    run = await house.app.start("convert", 7, **options)
    await house.work()
    return run.id


async def test_17_the_owner_may_retry_the_run_p8_p12(
    house: House, files: Files, ana: httpx.AsyncClient
) -> None:
    for prefix in (RUNS, P8):
        own = await failed(house, owner="ana")
        retried = await ana.post(f"{prefix}/{own}/retry", json={"reason": "there is room"})
        assert (retried.status_code, retried.json()) == (202, {"id": own, "state": "RUNNING"})
        letter = await house.app.run(own).dead_letter()
        assert letter is not None
        assert [replay.requested_by for replay in await house.app.failures().replays.list(letter.id)] == [
            "ana"
        ]


async def test_17_other_users_need_the_permission_to_operate_p12(
    house: House, files: Files, ana: httpx.AsyncClient
) -> None:
    for owner in (None, "ben", "Ana", "ana "):
        other = await failed(house, **({} if owner is None else {"owner": owner}))
        refused = await ana.post(f"{P8}/{other}/retry")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert (await house.app.run(other).state()) == "DLQ_PENDING"
    own = await failed(house, owner="ana")
    assert (await ana.post(f"{RUNS}/{own}/cancel")).status_code == 403, "a retry is all that an owner may"
    admin = await house.keyed("ADMIN")
    assert (await admin.post(f"{P8}/{own}/retry")).status_code == 202


async def test_17_an_owner_of_the_same_name_in_another_organization_has_no_right(
    house: House, files: Files
) -> None:
    await house.organization("acme")
    await house.member("ana", PASSWORD, "VIEWER", "acme")
    ana = await house.signed_in("ana", PASSWORD)
    other = await failed(house, owner="ana")
    assert (await ana.post(f"{P8}/{other}/retry")).status_code == 403


async def test_17_the_starter_owns_the_run(house: House, files: Files) -> None:
    await house.member("ben", PASSWORD, "ADMIN")
    ben = await house.signed_in("ben", PASSWORD)
    key = await house.keyed("ADMIN", name="shop", scopes=["start", "read"])
    started = {
        "ben": await ben.post(RUNS, json={"work": "convert"}),
        "key:shop": await key.post(RUNS, json={"work": "convert"}),
        "ana": await key.post(RUNS, json={"work": "convert", "owner": "ana"}),
    }
    for owner, answer in started.items():
        assert (await key.get(f"{RUNS}/{answer.json()['id']}")).json()["owner"] == owner
    [many] = (await ben.post(f"{RUNS}/many", json={"work": "convert", "payloads": [1]})).json()["items"]
    assert (await key.get(f"{RUNS}/{many['id']}")).json()["owner"] == "ben"
    await house.work()
    ids = {owner: answer.json()["id"] for owner, answer in started.items()}
    assert (await key.post(f"{P8}/{ids['ana']}/retry")).status_code == 403
    assert (await key.post(f"{P8}/{ids['key:shop']}/retry")).status_code == 202, "a key is an owner, too"


async def test_17_a_run_has_no_owner_unless_it_is_named(house: House, files: Files) -> None:
    keyed = await house.app.start("convert", 1, key="a", owner="ana")
    again = await house.app.start("convert", 1, key="a", owner="ben")
    delayed = await house.app.start("convert", 2, delay=60, owner="cem")
    several = await house.app.start_many("convert", [3, 4], owner="dora")
    plain = await house.app.start("convert", 5)
    owners = [(await run.view()).owner for run in (keyed, again, delayed, *several, plain)]
    assert owners == ["ana", "ana", "cem", "dora", "dora", None]


async def test_17_runs_of_several_owners_in_one_write_keep_their_owners(house: House, files: Files) -> None:
    names = [None, "ana", "ben", "ana", None] * 5
    runs = await asyncio.gather(
        *(house.app.start("convert", number, owner=name) for number, name in enumerate(names))
    )
    assert [(await run.view()).owner for run in runs] == names


@pytest.mark.parametrize("owner", ["", "a\nb", 7, "x" * 256])
async def test_17_an_owner_is_a_name(owner: Any) -> None:
    app = new_app()
    Files(app)
    async with bench(app):
        with pytest.raises(InvalidValueError, match="owner must be a string"):
            await app.start("convert", 1, owner=owner)


@pytest.mark.parametrize(
    ("role", "scopes", "owner", "expected"),
    [
        (Role.VIEWER, None, "ana", True),
        (Role.VIEWER, None, "ben", False),
        (Role.VIEWER, None, None, False),
        (Role.ADMIN, None, None, True),
        (Role.ADMIN, frozenset({Permission.READ}), "ana", True),
        (Role.ADMIN, frozenset({Permission.START}), "ana", False),
        (Role.ADMIN, frozenset({Permission.OPERATE}), "ben", True),
    ],
)
def test_17_users_with_the_right_to_retry(
    role: Role, scopes: frozenset[Permission] | None, owner: str | None, expected: bool
) -> None:
    principal = Principal("default", "ana", role, permitted(role, scopes), SESSION, "s1", "u1")
    assert may_retry(principal, owner) is expected


# The page of the run


def has_button(page: Any, run_id: str) -> bool:
    return f"POST /api/v1/runs/{run_id}/retry" in [
        form.attributes.get("data-action") for form in page.find("form")
    ]


async def test_17_the_button_follows_the_same_rule_p8(
    house: House, files: Files, ana: httpx.AsyncClient
) -> None:
    own, other = await failed(house, owner="ana"), await failed(house, owner="ben")
    admin = await house.keyed("ADMIN")
    for client, run_id, expected in (
        (ana, own, True),
        (ana, other, False),
        (admin, own, True),
        (admin, other, True),
    ):
        page = await read(client, f"/app/admin/runs/{run_id}")
        assert has_button(page, run_id) is expected
        listed = await read(client, "/app/admin/runs")  # a link, because the task has a source to check
        assert (
            "Retry…" in [link.text for link in listed.find("a", href=f"/app/admin/runs/{run_id}")]
        ) is expected
    files.exists = False
    for client in (ana, admin):
        page = await read(client, f"/app/admin/runs/{own}")
        assert not has_button(page, own)
        [button] = [each for each in page.find("button") if each.text == "Retry"]
        assert "disabled" in button.attributes
        assert "the source that 'convert' processes no longer exists" in page.text
    assert "no longer exists" not in (await read(ana, f"/app/admin/runs/{other}")).text


async def test_17_a_slow_source_check_does_not_hold_up_the_page_p8(
    small_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failed_runs, "SOURCE_SECONDS", 0.05)
    never = asyncio.Event()

    async def look(_: Any) -> bool:
        await never.wait()
        return True

    @small_house.app.task(max_attempts=1, source=look)
    async def convert(name: Any = None) -> None:
        raise FinalError("the disk is full")

    run_id = await failed(small_house)
    assert has_button(await read(await small_house.keyed("ADMIN"), f"/app/admin/runs/{run_id}"), run_id)


# Rates


def admitted(limits: RequestLimits, *principals: Principal) -> int:
    """Count requests of these callers, in turn, until the first rejected one."""
    number = 0
    with pytest.raises(ProblemError, match="more than 5 requests per second"):
        while True:
            limits.admit(principals[number % len(principals)])
            number += 1
    return number


def caller(kind: str, identity: str, user: str | None) -> Principal:
    return Principal("default", "ana", Role.VIEWER, frozenset(), kind, identity, user)


def test_17_all_sessions_of_a_user_share_one_rate_p11() -> None:
    limits = RequestLimits(Settings(server_key_rate=5, server_org_rate=1000), HandClock().monotonic)
    assert admitted(limits, *(caller(SESSION, f"s{number}", "u1") for number in range(4))) == 10
    assert admitted(limits, caller(SESSION, "s9", "u2")) == 10, "another user has a rate of their own"
    assert admitted(limits, caller(KEY, "k1", None)) == 10
    assert admitted(limits, caller(KEY, "k2", None)) == 10


# Storage


async def test_17_runs_of_the_previous_version_have_no_owner(tmp_path: Path) -> None:
    app = new_app(f"sqlite:///{tmp_path}/work.db")
    Files(app)
    async with bench(app):
        run = await app.start("convert", 7, owner="ana")
        await ask(parts_of(app).database, "UPDATE redrive.runs SET owner = NULL")
        assert (await run.view()).owner is None
