"""Organizations, members and their accounts, on both databases (W12, W13, I14)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.engine.workbench import PATIENCE
from tests.identity.identity_world import PASSWORD, World, refused, world_on

from redrive.engine.enqueue import DEFAULT_ORG
from redrive.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    DriftError,
    InvalidValueError,
    LastOwnerError,
    NotFoundError,
    TransitionError,
)
from redrive.identity.members import Members
from redrive.model.identity import HOME
from redrive.model.role import Role
from redrive.parts import parts_of
from redrive.store.database import Session


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with world_on(request, tmp_path) as world:
        yield world


# Organizations


async def test_the_home_organization_is_there_from_the_beginning(world: World) -> None:
    members = world.members()
    assert (await members.organizations.view()).name == HOME == DEFAULT_ORG
    assert [each.name for each in (await members.organizations.list()).organizations] == [HOME]


async def test_owners_of_the_home_organization_make_others(world: World) -> None:
    organizations = world.members(by="ana").organizations
    made = await organizations.create("acme", "Acme, Inc.")
    assert (made.name, made.title, made.created_by) == ("acme", "Acme, Inc.", "ana")
    assert await organizations.view("acme") == made
    assert await world.audited() == [("ana", "organization.created")]
    await refused(world, AlreadyExistsError, organizations.create("acme"), "use another name")
    await refused(world, InvalidValueError, organizations.create(" acme"))
    await refused(world, NotFoundError, organizations.view("beta"))


async def test_organizations_are_listed_in_pages(world: World) -> None:
    organizations = world.members().organizations
    for name in ("b", "a", "c"):
        await organizations.create(name)
    first = await organizations.list(size=3)
    assert [each.name for each in first.organizations] == ["a", "b", "c"]
    rest = await organizations.list(size=3, cursor=first.next_cursor)
    assert ([each.name for each in rest.organizations], rest.next_cursor) == (["default"], None)


async def test_members_elsewhere_see_only_their_own_organization_w13(world: World) -> None:
    await world.organization("acme")
    await world.organization("beta")
    await world.member("ana", "OWNER", "acme")
    mine = (await world.as_user("ana")).organizations
    assert [each.name for each in (await mine.list()).organizations] == ["acme"]
    await refused(world, NotFoundError, mine.view("beta"))
    await refused(world, AccessDeniedError, mine.create("gamma"), "only owners of the organization 'default'")


async def test_a_missing_organization_has_no_members(world: World) -> None:
    nowhere = world.members("nowhere")
    await refused(world, NotFoundError, nowhere.add("ana", "OWNER"), "found no organization")
    await refused(world, NotFoundError, nowhere.keys.create("ci", "VIEWER"), "found no organization")


# Members


async def test_a_member_is_added_changed_and_removed_with_one_entry_each_i14(world: World) -> None:
    members = world.members(by="boss")
    added = await members.add("Ana@Example.com", "org_admin")
    assert (added.org, added.name, added.role) == ("default", "ana@example.com", Role.ADMIN)
    assert (added.active, added.version, added.created_by) == (True, 1, "boss")

    changed = await members.change("ana@example.com", role="STAFF", active=False)
    assert (changed.role, changed.active, changed.version) == (Role.STAFF, False, 2)
    assert await members.view(added.user_id) == changed == await members.view("ANA@example.com")

    await members.remove(added.user_id)
    await refused(world, NotFoundError, members.view("ana@example.com"))
    assert await world.audited() == [
        ("boss", "member.added"),
        ("boss", "member.changed"),
        ("boss", "member.removed"),
    ]
    audit = world.app.failures().audit
    entries = (await audit.list(subject=added.user_id)).entries
    assert [each.detail for each in entries] == [
        {"name": "ana@example.com", "role": "STAFF"},
        {
            "name": "ana@example.com",
            "role": {"before": "ADMIN", "after": "STAFF"},
            "active": {"before": True, "after": False},
        },
        {"name": "ana@example.com", "role": "ADMIN", "account": "new"},
    ]
    await world.check()


async def test_a_change_without_an_effect_is_not_recorded(world: World) -> None:
    member = await world.member("ana", "STAFF")
    before = await world.everything()
    assert await world.members().change("ana", role="STAFF", active=True) == member
    assert await world.everything() == before


async def test_members_are_listed_by_name_in_pages(world: World) -> None:
    for name in ("cleo", "ana", "bob"):
        await world.member(name, "VIEWER")
    members = world.members()
    first = await members.list(size=2)
    assert [each.name for each in first.members] == ["ana", "bob"]
    rest = await members.list(size=2, cursor=first.next_cursor)
    assert ([each.name for each in rest.members], rest.next_cursor) == (["cleo"], None)


async def test_a_user_is_a_member_only_once(world: World) -> None:
    await world.member("ana", "VIEWER")
    members = world.members()
    await refused(world, AlreadyExistsError, members.add("ANA", "OWNER"), "change the role")


async def test_two_callers_that_add_the_same_member_at_once(world: World) -> None:
    others = [world.another().members(by=f"boss {number}") for number in range(4)]
    results = await asyncio.gather(*(each.add("ana", "VIEWER") for each in others), return_exceptions=True)
    assert sorted(type(each).__name__ for each in results) == ["AlreadyExistsError"] * 3 + ["Member"]
    assert await world.number_audited() == 1


async def test_an_edit_of_an_old_version_is_refused(world: World) -> None:
    member = await world.member("ana", "VIEWER")
    members = world.members()
    newer = await members.change("ana", role="STAFF", version=member.version)
    await refused(world, DriftError, members.change("ana", role="ADMIN", version=member.version), "now 2")
    await refused(world, DriftError, members.remove("ana", version=1), "Reload and retry")
    await refused(world, InvalidValueError, members.remove("ana", version="2"))  # type: ignore[arg-type]
    await members.remove("ana", version=newer.version)


async def test_a_person_without_a_membership_is_not_found(world: World) -> None:
    members = world.members()
    accounts = members.accounts
    strangers: list[Any] = ["nobody", "0" * 32, "", "a\x00b", "\ud800", "x" * 500, None, 7]
    for who in strangers:
        for call in (members.view, members.change, members.remove, accounts.link, accounts.disable):
            await refused(world, NotFoundError, call(who), "found no member")


async def test_members_of_other_organizations_do_not_exist_w13(world: World) -> None:
    acme = await world.organization("acme")
    await world.organization("beta")
    ana = await world.member("ana", "VIEWER", "beta")
    await world.member("bob", "OWNER", "beta")
    assert (await acme.list()).members == ()
    for who in ("ana", ana.user_id):
        await refused(world, NotFoundError, acme.view(who))
        await refused(world, NotFoundError, acme.change(who, role="OWNER"))
        await refused(world, NotFoundError, acme.remove(who))
        await refused(world, NotFoundError, acme.accounts.link(who))
        await refused(world, NotFoundError, acme.accounts.set_password(who, PASSWORD))
        await refused(world, NotFoundError, acme.accounts.disable(who))


# Permissions


async def test_only_owners_manage_members_and_accounts_w12(world: World) -> None:
    await world.member("boss")
    for role in ("VIEWER", "STAFF", "ADMIN"):
        await world.member(role, role)
        ana = await world.as_user(role)
        for call in (
            ana.add("eve", "VIEWER"),
            ana.change("boss", active=False),
            ana.change(role, role="OWNER"),
            ana.remove("boss"),
            ana.accounts.link("boss"),
            ana.accounts.set_password("boss", PASSWORD),
            ana.accounts.disable("boss"),
            ana.accounts.enable("boss"),
            ana.organizations.create("acme"),
        ):
            await refused(world, AccessDeniedError, call, "may not manage")


async def test_members_can_leave(world: World) -> None:
    await world.member("boss")
    await world.member("ana", "VIEWER")
    ana = await world.as_user("ana")
    await ana.leave()
    await refused(world, NotFoundError, ana.leave())
    await refused(world, InvalidValueError, world.members().leave(), "to remove an API key, revoke it")


async def test_a_principal_acts_in_its_own_organization_alone(world: World) -> None:
    await world.organization("acme")
    await world.member("ana", "OWNER", "acme")
    ana = (await world.signed_in("ana")).signed_in.principal
    with pytest.raises(InvalidValueError, match="switch to"):
        world.members("default", ana)


# The last owner

Loss = Callable[[Members], Awaitable[object]]
LOSSES: dict[str, Loss] = {
    "remove": lambda members: members.remove("ana"),
    "leave": lambda members: members.leave(),
    "demote": lambda members: members.change("ana", role="ADMIN"),
    "deactivate": lambda members: members.change("ana", active=False),
    "disable": lambda members: members.accounts.disable("ana"),
}


@pytest.mark.parametrize("loss", list(LOSSES))
async def test_the_last_owner_cannot_go(world: World, loss: str) -> None:
    await world.member("ana")
    await world.member("bob", "ADMIN")
    resting = (await world.member("resting")).user_id
    members = world.members()
    await members.change(resting, active=False)
    await world.member("locked out")
    await members.accounts.disable("locked out")

    ana = await world.as_user("ana")
    await refused(world, LastOwnerError, LOSSES[loss](ana), "make another member an owner first")

    await members.change("bob", role="OWNER")
    await LOSSES[loss](ana)
    assert await world.owners() == ["bob"]


async def test_owners_who_cannot_act_can_go(world: World) -> None:
    await world.member("ana")
    await world.member("bob")
    members = world.members()
    await members.change("bob", active=False)
    await members.change("bob", role="VIEWER")
    await members.remove("bob")
    assert await world.owners() == ["ana"]


@pytest.mark.parametrize("loss", ["remove", "demote", "deactivate", "disable"])
async def test_two_owners_who_remove_each_other_leave_one(world: World, loss: str) -> None:
    """Whichever reaches the database first."""
    first, second = world.app, world.another()
    for number in range(4):
        names = [f"one {number}", f"two {number}"]
        org = f"org {number}"
        await world.organization(org)
        for name in names:
            await world.member(name, "OWNER", org)
        [one, two] = [app.members(org=org, by="boss") for app in (first, second)]
        calls = [_loss(loss, one, names[1]), _loss(loss, two, names[0])]
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(each) for each in results].count(LastOwnerError) == 1, results
        assert len(await world.owners(org)) == 1


async def test_however_many_owners_leave_at_once_one_stays(world: World) -> None:
    names = [f"owner {number}" for number in range(6)]
    for name in names:
        await world.member(name)
    apps = [world.app, world.another(), world.another()]
    several = [apps[number % 3].members(by="boss") for number in range(6)]
    calls = [
        _loss(loss, members, name)
        for members, name, loss in zip(several, names, ["remove", "demote", "deactivate"] * 2, strict=True)
    ]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(each) for each in results].count(LastOwnerError) == 1, results
    assert len(await world.owners()) == 1
    await world.check()


def _loss(loss: str, members: Members, name: str) -> Awaitable[object]:
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "remove": lambda: members.remove(name),
        "demote": lambda: members.change(name, role="VIEWER"),
        "deactivate": lambda: members.change(name, active=False),
        "disable": lambda: members.accounts.disable(name),
    }
    return calls[loss]()


@pytest.fixture(params=["postgres"])
async def busy_world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """A world on PostgreSQL, where transactions overlap; SQLite has one writer at a time."""
    async with world_on(request, tmp_path) as world:
        yield world


async def until_it_waits(world: World, task: asyncio.Task[None]) -> None:
    """Wait until the task is done, or waits for a lock."""
    while not task.done() and not await world.sql("SELECT 1 FROM pg_locks WHERE NOT granted"):
        await asyncio.sleep(0)


async def test_a_user_does_not_become_the_only_owner_while_being_disabled(busy_world: World) -> None:
    world = busy_world
    await world.member("ana")
    await world.member("bob", "VIEWER")
    members = world.another().members()
    users = parts_of(world.app).store.users
    disable = users.disable
    meanwhile: list[asyncio.Task[None]] = []

    async def hand_over() -> None:
        await members.change("bob", role="OWNER")
        await members.remove("ana")

    async def disable_at_last(session: Session, user_id: str) -> bool:
        meanwhile.append(asyncio.create_task(hand_over()))
        await until_it_waits(world, meanwhile[0])
        return await disable(session, user_id)

    users.disable = disable_at_last  # type: ignore[method-assign]
    async with asyncio.timeout(PATIENCE):
        await world.members().accounts.disable("bob")
        with pytest.raises(LastOwnerError):
            await meanwhile[0]
    assert await world.owners() == ["ana"]


async def test_disabling_needs_the_permission_of_every_organization_the_user_owns(world: World) -> None:
    await world.organization("acme")
    await world.member("boss")
    await world.member("ana", "VIEWER")
    await world.member("ana", "OWNER", "acme")
    accounts = world.members().accounts
    await refused(world, LastOwnerError, accounts.disable("ana"), "'acme'")
    await world.member("bob", "OWNER", "acme")
    await accounts.disable("ana")
    assert await world.owners("acme") == ["bob"]


# Accounts


async def test_a_disabled_user_is_signed_out_and_cannot_sign_in_until_enabled(world: World) -> None:
    await world.member("boss")
    await world.with_password("ana")
    sessions, accounts = await world.sessions(), world.members().accounts
    token = (await world.signed_in("ana")).token
    link = await accounts.link("ana")
    await accounts.disable("ana")
    number = await world.number_audited()
    await accounts.disable("ana")

    assert await sessions.of(token) is None
    assert await sessions.sign_in("ana", PASSWORD) is None
    assert await sessions.redeem(link.token) is None
    await refused(world, TransitionError, accounts.link("ana"), "activate or enable them first")

    await accounts.enable("ana")
    await accounts.enable("ana")
    assert await sessions.of(token) is None, "a session that has ended does not come back"
    assert await sessions.redeem(link.token) is None
    assert await sessions.sign_in("ana", PASSWORD) is not None
    assert (await world.audited())[number:] == [("boss", "user.enabled"), ("ana", "session.started")]


async def test_a_password_that_an_owner_sets_ends_sessions_and_links(world: World) -> None:
    await world.with_password("ana")
    sessions, accounts = await world.sessions(), world.members().accounts
    token, link = (await world.signed_in("ana")).token, await accounts.link("ana")
    await accounts.set_password("ana", "another long password")
    assert await sessions.of(token) is None
    assert await sessions.redeem(link.token) is None
    assert await sessions.sign_in("ana", PASSWORD) is None
    assert await sessions.sign_in("ana", "another long password") is not None
    assert await world.audited(after=await world.number_audited() - 2) == [
        ("boss", "user.password_changed"),
        ("ana", "session.started"),
    ]


@pytest.mark.parametrize("loss", ["remove", "demote", "deactivate", "disable"])
async def test_links_that_an_owner_has_handed_out_end_with_their_rights_w12(world: World, loss: str) -> None:
    await world.member("ana")
    await world.member("eve")
    eve = await world.as_user("eve")
    kept, link = await world.members().accounts.link("ana"), await eve.accounts.link("ana")
    await _loss(loss, world.members(), "eve")
    sessions = await world.sessions()
    assert await sessions.redeem(link.token) is None
    assert await sessions.redeem(kept.token) is not None


async def test_a_link_and_a_password_of_one_user_do_not_wait_for_each_other(busy_world: World) -> None:
    """If the password is set first, the link that is being redeemed is gone."""
    world = busy_world
    await world.with_password("ana")
    link = await world.members().accounts.link("ana")
    others = world.another().members().sessions
    users = parts_of(world.app).store.users
    set_password = users.set_password
    meanwhile: list[asyncio.Task[None]] = []

    async def redeem() -> None:
        assert await others.redeem(link.token) is None

    async def set_at_last(session: Session, user_id: str, password: str) -> None:
        meanwhile.append(asyncio.create_task(redeem()))
        await until_it_waits(world, meanwhile[0])
        await set_password(session, user_id, password)

    users.set_password = set_at_last  # type: ignore[method-assign]
    async with asyncio.timeout(PATIENCE):
        await world.members().accounts.set_password("ana", "another long password")
        await meanwhile[0]


async def test_owners_hand_out_links_for_the_accounts_that_they_made(world: World) -> None:
    await world.organization("acme")
    await world.member("ana", "OWNER", "acme")
    ana = await world.as_user("ana")
    await ana.add("bob", "STAFF")
    link = await ana.accounts.link("bob")
    new = await (await world.sessions()).redeem(link.token)
    assert new is not None
    assert new.signed_in.principal[:3] == ("acme", "bob", Role.STAFF)
    assert ("ana", "member.linked") in await world.audited("acme")


async def test_a_link_gives_no_access_to_another_organization(world: World) -> None:
    """A user of the home organization is also a member of acme, whose owner tries to sign in as that user."""
    acme = await world.organization("acme")
    await world.member("chief")
    await acme.add("chief", "VIEWER")
    await acme.add("eve", "OWNER")
    eve = await world.as_user("eve", "acme")
    for call in (
        eve.accounts.link("chief"),
        eve.accounts.set_password("chief", PASSWORD),
        eve.accounts.disable("chief"),
    ):
        await refused(world, AccessDeniedError, call, "does not belong to 'acme'")


async def test_an_account_of_another_organization_cannot_be_added(world: World) -> None:
    """Eve creates an account under the name of a person whom beta will trust, and knows its password."""
    await world.organization("acme")
    await world.organization("beta")
    await world.member("eve", "OWNER", "acme")
    await world.member("ben", "OWNER", "beta")
    eve, ben = await world.as_user("eve"), await world.as_user("ben")
    await eve.add("auditor", "VIEWER")
    await eve.accounts.set_password("auditor", PASSWORD)
    await refused(world, AlreadyExistsError, ben.add("auditor", "OWNER"), "an owner of 'default'")


async def test_an_account_adopted_by_the_home_organization_keeps_no_old_secret(
    world: World,
) -> None:
    await world.organization("acme")
    await world.organization("beta")
    await world.member("eve", "OWNER", "acme")
    await world.member("boss")
    eve = await world.as_user("eve")
    await eve.add("auditor", "VIEWER")
    await eve.accounts.set_password("auditor", PASSWORD)
    sessions = await world.sessions()
    token = (await world.signed_in("auditor")).token
    link = await eve.accounts.link("auditor")

    boss = (await world.signed_in("boss")).token
    principal = (await sessions.enter(boss, "beta")).principal
    await world.members("beta", principal).add("auditor", "OWNER")

    assert await sessions.of(token) is None
    assert await sessions.redeem(link.token) is None
    assert await sessions.sign_in("auditor", PASSWORD) is None
    await refused(world, AccessDeniedError, eve.accounts.link("auditor"))
    assert (await world.audited("beta"))[-1] == ("boss", "member.added")


async def test_a_removed_account_can_be_added_again_by_its_organization(world: World) -> None:
    await world.organization("acme")
    await world.member("eve", "OWNER", "acme")
    eve = await world.as_user("eve")
    first = await eve.add("bob", "VIEWER")
    await eve.remove("bob")
    again = await eve.add("bob", "STAFF")
    assert (again.user_id, again.version, again.role) == (first.user_id, 1, Role.STAFF)
