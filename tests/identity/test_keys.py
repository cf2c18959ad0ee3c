"""API keys on both databases: shown once, kept as hashes, limited, rotated, revoked (security baseline)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.identity.identity_world import World, refused, world_on

from redrive.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    InvalidValueError,
    NotFoundError,
    TransitionError,
)
from redrive.identity.credentials import CredentialLookup
from redrive.model.identity import NewKey
from redrive.model.role import Role
from redrive.parts import parts_of
from redrive.policy.access import Permission, Principal, permitted
from redrive.policy.credential import digest, parse_key


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with world_on(request, tmp_path) as world:
        yield world


async def credentials(world: World) -> CredentialLookup:
    return world.app.members().credentials


async def known(world: World, text: str) -> Principal:
    found = await (await credentials(world)).of_key(text)
    assert found is not None
    return found


async def is_valid(world: World, new: NewKey) -> bool:
    return await (await credentials(world)).of_key(new.text) is not None


async def tamper(world: World, new: NewKey, column: str, seconds: float) -> None:
    """Set a time of the key to `seconds` from now."""
    await world.sql(
        f"UPDATE redrive.api_keys SET {column} = :now + :seconds WHERE id = :id",
        seconds=seconds,
        id=new.key.id,
    )


# Creating a key


async def test_a_key_is_its_role_in_its_organization(world: World) -> None:
    acme = await world.organization("acme")
    new = await acme.keys.create("ci", "ADMIN")
    assert await known(world, new.text) == Principal(
        "acme", "key:ci", Role.ADMIN, permitted(Role.ADMIN), "key", new.key.id
    )


async def test_scopes_narrow_a_key(world: World) -> None:
    new = await world.members().keys.create("ci", "OWNER", scopes=["start", "read"])
    assert new.key.scopes == ("read", "start")
    found = await known(world, new.text)
    assert found.permissions == {Permission.READ, Permission.START}
    assert not found.everywhere


async def test_a_whole_key_of_an_owner_of_the_home_organization_reaches_everywhere(world: World) -> None:
    acme = await world.organization("acme")
    home = await world.members().keys.create("ci", "OWNER")
    other = await acme.keys.create("ci", "OWNER")
    assert [(await known(world, each.text)).everywhere for each in (home, other)] == [True, False]


async def test_a_key_is_shown_once_and_stored_nowhere_i9(world: World) -> None:
    keys = world.members().keys
    new = await keys.create("ci", "ADMIN")
    rotated = await keys.rotate("ci")
    for text in (new.text, rotated.text):
        parsed = parse_key(text)
        assert parsed is not None
        assert not await world.holds(parsed.secret)
        assert await world.holds(digest(parsed.secret))
        for shown in (new, rotated, await keys.list(), await known(world, rotated.text)):
            assert parsed.secret not in repr(shown)
            assert parsed.secret not in f"{shown}"
    assert new.key.prefix == f"rdk_{new.key.id}"
    assert new.text.startswith(new.key.prefix)


async def test_each_key_has_another_secret(world: World) -> None:
    keys = world.members().keys
    texts = [(await keys.create(f"ci {number}", "VIEWER")).text for number in range(5)]
    assert len({text[-43:] for text in texts}) == 5


async def test_secrets_come_from_the_source_of_entropy_and_not_from_the_random_numbers(world: World) -> None:
    asked: list[int] = []

    def entropy(number: int) -> bytes:
        asked.append(number)
        return bytes(number)

    parts_of(world.app).entropy = entropy
    new = await world.members().keys.create("ci", "VIEWER")
    assert (asked, new.text[-43:]) == ([32], "A" * 43)


async def test_another_text_than_the_key_identifies_no_caller(world: World) -> None:
    new = await world.members().keys.create("ci", "ADMIN")
    other = await world.members().keys.create("other", "ADMIN")
    check = await credentials(world)
    last = "A" if new.text[-1] != "A" else "B"
    for text in (
        "",
        new.key.id,
        new.text[:-1],
        new.text[:-1] + last,
        new.text + " ",
        new.key.prefix + "_" + other.text[-43:],
        "rdk_" + "0" * 32 + "_" + new.text[-43:],
        new.text.replace("rdk_", "rdk-"),
        digest(new.text[-43:]),
    ):
        assert await check.of_key(text) is None, text


async def test_a_key_ends_when_it_expires(world: World) -> None:
    new = await world.members().keys.create("ci", "ADMIN", expires_in=3600)
    assert new.key.expires_at == pytest.approx(new.key.created_at + 3600)
    assert await is_valid(world, new)
    await tamper(world, new, "expires_at", 0.0)
    assert not await is_valid(world, new)


async def test_revoking_a_key_is_immediate_and_permanent(world: World) -> None:
    keys = world.members(by="ana").keys
    new = await keys.create("ci", "ADMIN")
    rotated = await keys.rotate("ci")
    revoked = await keys.revoke("ci")
    assert (revoked.revoked_by, revoked.previous_expires_at) == ("ana", None)
    assert not await is_valid(world, new)
    assert not await is_valid(world, rotated)
    assert await keys.revoke(new.key.id) == revoked
    await refused(world, TransitionError, keys.rotate(new.key.id), "is revoked; create a new key")
    assert await world.audited() == [
        ("ana", "key.created"),
        ("ana", "key.rotated"),
        ("ana", "key.revoked"),
    ]
    await world.check()


async def test_links_that_a_key_has_handed_out_end_with_it(world: World) -> None:
    """Links of another organization's key with the same name stay valid (W12, W13)."""
    await world.organization("acme")
    links = []
    for org, name in (("default", "ana"), ("acme", "bob")):
        await world.member(name, org=org)
        new = await world.members(org).keys.create("ci", "OWNER")
        members = world.members(org, await known(world, new.text))
        links.append(await members.accounts.link(name))
    await world.members().keys.revoke("ci")
    sessions = await world.sessions()
    assert await sessions.redeem(links[0].token) is None
    assert await sessions.redeem(links[1].token) is not None


async def test_that_a_key_was_used_is_written_once_a_minute(world: World) -> None:
    new = await world.members().keys.create("ci", "ADMIN")
    keys = world.members().keys
    assert (await keys.view("ci")).last_used_at is None
    await known(world, new.text)
    first = (await keys.view("ci")).last_used_at
    assert first is not None
    await tamper(world, new, "last_used_at", -50.0)
    before = (await keys.view("ci")).last_used_at
    await known(world, new.text)
    assert (await keys.view("ci")).last_used_at == before
    await tamper(world, new, "last_used_at", -61.0)
    await known(world, new.text)
    assert ((await keys.view("ci")).last_used_at or 0.0) >= first


# Rotating


async def test_after_a_rotation_both_secrets_are_valid_until_the_grace_ends(world: World) -> None:
    keys = world.members().keys
    old = await keys.create("ci", "ADMIN")
    new = await keys.rotate("ci", grace_seconds=600)
    assert new.key.id == old.key.id
    assert new.text != old.text
    assert new.key.previous_expires_at == pytest.approx((new.key.rotated_at or 0.0) + 600)
    assert (await is_valid(world, old), await is_valid(world, new)) == (True, True)
    await tamper(world, new, "previous_expires_at", 0.0)
    assert (await is_valid(world, old), await is_valid(world, new)) == (False, True)


async def test_durations_can_be_timedeltas(world: World) -> None:
    keys = world.members().keys
    old = await keys.create("ci", "ADMIN", expires_in=timedelta(days=1))
    assert old.key.expires_at == pytest.approx(old.key.created_at + 86_400)
    new = await keys.rotate("ci", grace_seconds=timedelta(minutes=10), expires_in=timedelta(days=2))
    rotated_at = new.key.rotated_at or 0.0
    assert new.key.previous_expires_at == pytest.approx(rotated_at + 600)
    assert new.key.expires_at == pytest.approx(rotated_at + 2 * 86_400)
    message = "grace_seconds must be a number of seconds from 0 to 2,592,000, got -1.0"
    for grace in (-1.0, timedelta(seconds=-1)):
        await refused(world, InvalidValueError, keys.rotate("ci", grace_seconds=grace), message)


async def test_without_grace_the_secret_before_is_over_at_once(world: World) -> None:
    keys = world.members().keys
    old = await keys.create("ci", "ADMIN")
    new = await keys.rotate(old.key.id, grace_seconds=0)
    assert (await is_valid(world, old), await is_valid(world, new)) == (False, True)


async def test_a_second_rotation_leaves_only_the_last_two_secrets(world: World) -> None:
    keys = world.members().keys
    texts = [await keys.create("ci", "ADMIN"), await keys.rotate("ci"), await keys.rotate("ci")]
    assert [await is_valid(world, each) for each in texts] == [False, True, True]


async def test_rotating_an_expired_key_does_not_bring_its_old_secret_back(world: World) -> None:
    keys = world.members().keys
    old = await keys.create("ci", "ADMIN", expires_in=60)
    await tamper(world, old, "expires_at", 0.0)
    await refused(world, TransitionError, keys.rotate("ci"), "has expired")
    new = await keys.rotate("ci", grace_seconds=600, expires_in=60)
    assert (await is_valid(world, old), await is_valid(world, new)) == (False, True)


async def test_the_secret_before_ends_with_the_key(world: World) -> None:
    keys = world.members().keys
    old = await keys.create("ci", "ADMIN", expires_in=3600)
    new = await keys.rotate("ci", grace_seconds=86_400)
    assert new.key.expires_at == old.key.expires_at
    await tamper(world, new, "expires_at", 0.0)
    assert (await is_valid(world, old), await is_valid(world, new)) == (False, False)


# Names, lists and other organizations


async def test_a_name_is_free_again_after_revoking(world: World) -> None:
    keys = world.members().keys
    first = await keys.create("ci", "ADMIN")
    await refused(world, AlreadyExistsError, keys.create("ci", "VIEWER"), "use another name")
    await keys.revoke("ci")
    second = await keys.create("ci", "VIEWER")
    assert await keys.view("ci") == second.key
    assert (await keys.view(first.key.id)).revoked_at is not None


async def test_several_callers_that_take_one_name_at_once(world: World) -> None:
    others = [world.another().members() for _ in range(4)]
    results = await asyncio.gather(
        *(each.keys.create("ci", "VIEWER") for each in others), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in results) == ["AlreadyExistsError"] * 3 + ["NewKey"]
    assert await world.number_audited() == 1


async def test_keys_are_listed_newest_first_in_pages(world: World) -> None:
    keys = world.members().keys
    made = [(await keys.create(f"ci {number}", "VIEWER")).key.id for number in range(3)]
    first = await keys.list(size=2)
    assert [each.id for each in first.keys] == made[:0:-1]
    rest = await keys.list(size=2, cursor=first.next_cursor)
    assert ([each.id for each in rest.keys], rest.next_cursor) == (made[:1], None)
    await refused(world, InvalidValueError, keys.list(cursor="x"), "start from the first page")


async def test_names_that_no_key_can_have(world: World) -> None:
    keys = world.members().keys
    for name in ("", " ", "a\nb", "x" * 101, "0" * 32, "\ud800"):
        await refused(world, InvalidValueError, keys.create(name, "VIEWER"))


async def test_keys_of_other_organizations_do_not_exist_w13(world: World) -> None:
    acme, beta = await world.organization("acme"), await world.organization("beta")
    theirs = (await beta.keys.create("ci", "ADMIN")).key
    assert (await acme.keys.list()).keys == ()
    for which in (theirs.id, "ci", "a\x00b"):
        for call in (acme.keys.view, acme.keys.rotate, acme.keys.revoke):
            await refused(world, NotFoundError, call(which), "see the list of keys")
    assert (await acme.keys.list(cursor="f" * 32)).keys == ()
    await acme.keys.create("ci", "ADMIN")


# Permissions


async def test_only_owners_manage_keys_w12(world: World) -> None:
    for role in ("VIEWER", "STAFF", "ADMIN"):
        new = await world.members().keys.create(role, role)
        keys = world.members(by=await known(world, new.text)).keys
        for call in (keys.create("other", "VIEWER"), keys.rotate(role), keys.revoke(role)):
            await refused(world, AccessDeniedError, call, "may not manage")


async def test_a_key_manages_only_when_its_scopes_say_so(world: World) -> None:
    members = world.members()
    deaf = await members.keys.create("deaf", "OWNER", scopes=["read", "operate"])
    mine = world.members(by=await known(world, deaf.text))
    await refused(world, AccessDeniedError, mine.keys.create("other", "VIEWER"))
    await refused(world, AccessDeniedError, mine.add("eve", "VIEWER"))
    whole = await members.keys.create("whole", "OWNER")
    mine = world.members(by=await known(world, whole.text))
    assert (await mine.keys.create("other", "OWNER")).key.created_by == "key:whole"


async def test_a_key_grants_no_more_rights_than_it_has(world: World) -> None:
    members = world.members()
    await world.member("boss")
    await members.keys.create("whole", "OWNER")
    await world.member("viewer", "VIEWER")
    narrow = await members.keys.create("narrow", "OWNER", scopes=["manage", "read", "plan"])
    mine = world.members(by=await known(world, narrow.text))
    for call in (
        mine.keys.create("other", "OWNER"),
        mine.keys.create("other", "ADMIN"),
        mine.keys.create("other", "OWNER", scopes=["manage", "operate"]),
        mine.keys.rotate("whole"),
        mine.add("eve", "OWNER"),
        mine.change("boss", role="VIEWER"),
        mine.remove("boss"),
        mine.accounts.link("boss"),
        mine.accounts.link("viewer"),  # this user may have more permissions elsewhere
    ):
        await refused(world, AccessDeniedError, call, "a caller can grant only its own")
    await refused(world, AccessDeniedError, mine.organizations.create("acme"), "only owners")
    await mine.change("viewer", active=False)
    await mine.keys.create("reader", "OWNER", scopes=["read"])
    await mine.keys.rotate("narrow")
    await mine.keys.revoke("whole")


async def test_a_key_with_wrong_options_is_refused(world: World) -> None:
    keys = world.members().keys
    wrong: list[dict[str, Any]] = [
        {"expires_in": 0},
        {"expires_in": 1e12},
        {"expires_in": "1 day"},
        {"expires_in": timedelta(0)},
        {"expires_in": timedelta(days=4_000)},
        {"scopes": []},
        {"scopes": ["manage"]},
        {"scopes": "read"},
    ]
    for options in wrong:
        await refused(world, InvalidValueError, keys.create("ci", "ADMIN", **options))
