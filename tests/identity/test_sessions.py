"""Signing in, sessions, links and one-time tokens, on both databases (security baseline, W12, W13)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from tests.identity.identity_world import PASSWORD, World, refused, world_on

from redrive.errors import AccessDeniedError, InvalidValueError, NotFoundError
from redrive.identity.sessions import UserSessions
from redrive.identity.sign_in import NewSession, SignedInUser
from redrive.model.identity import Identity
from redrive.model.role import Role
from redrive.parts import parts_of
from redrive.policy.access import Principal, permitted
from redrive.policy.credential import csrf_of, digest

ANA = Identity("https://id.example.com", "user-7")


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async with world_on(request, tmp_path) as world:
        yield world


async def seen(world: World, token: str) -> SignedInUser | None:
    return await (await world.sessions()).of(token)


async def tamper(world: World, token: str, column: str, seconds: float) -> None:
    """Set a time of the session to `seconds` from now."""
    text = f"UPDATE redrive.sessions SET {column} = :now + :seconds WHERE hash = :hash"
    await world.sql(text, seconds=seconds, hash=digest(token))


def made(new: NewSession | None) -> NewSession:
    assert new is not None
    return new


# Signing in with a password


async def test_the_right_password_makes_a_session(world: World) -> None:
    member = await world.with_password("ana", "STAFF")
    sessions = await world.sessions()
    new = made(await sessions.sign_in("ANA ", PASSWORD))
    found = await sessions.of(new.token)
    assert found == new.signed_in
    assert found is not None
    assert found.principal == Principal(
        "default", "ana", Role.STAFF, permitted(Role.STAFF), "session", found.session.id, member.user_id
    )
    assert found.csrf == csrf_of(new.token)
    assert (found.session.kind, found.session.org) == ("password", "default")
    assert found.session.expires_at == pytest.approx(found.session.created_at + 7 * 86_400)
    assert (await world.audited())[-1] == ("ana", "session.started")
    await world.check()


WRONG = [
    ("ana", PASSWORD + "!"),
    ("ana", ""),
    ("ana", PASSWORD.upper()),
    ("ana", "x" * 5000),
    ("ana", "\ud800" * 20),
    ("nobody", PASSWORD),
    ("", PASSWORD),
    ("a\x00na", PASSWORD),
    ("without password", PASSWORD),
    ("without organization", PASSWORD),
    ("resting", PASSWORD),
]


async def test_a_caller_who_cannot_sign_in_learns_nothing(world: World) -> None:
    await world.with_password("ana")
    await world.member("without password", "VIEWER")
    members = world.members()
    await world.with_password("without organization", "VIEWER")
    await members.remove("without organization")
    await world.with_password("resting", "VIEWER")
    await members.change("resting", active=False)
    before = await world.everything()
    for name, password in WRONG:
        assert await (await world.sessions()).sign_in(name, password) is None, (name, password)
    assert await world.everything() == before


async def test_users_sign_in_only_to_their_own_organizations_w13(world: World) -> None:
    await world.organization("acme")
    await world.with_password("ana", "OWNER", "acme")
    sessions = await world.sessions()
    for org in ("default", "beta", "", "a\x00b"):
        assert await sessions.sign_in("ana", PASSWORD, org=org) is None
    new = made(await sessions.sign_in("ana", PASSWORD, org="acme"))
    assert new.signed_in.principal.org == "acme"


async def test_a_token_from_before_is_never_promoted(world: World) -> None:
    """Session fixation: a token from before the sign-in is worthless afterwards."""
    await world.with_password("ana")
    sessions = await world.sessions()
    before = await world.signed_in("ana")
    new = made(await sessions.sign_in("ana", PASSWORD, ending=before.token))
    assert new.token != before.token
    assert await sessions.of(before.token) is None
    planted = "A" * 43
    new = made(await sessions.sign_in("ana", PASSWORD, ending=planted))
    assert new.token != planted
    assert await sessions.of(planted) is None


async def test_a_password_that_is_changed_while_it_is_checked_does_not_sign_in(world: World) -> None:
    await world.with_password("ana")
    sessions, accounts = await world.sessions(), world.members().accounts
    verify = parts_of(world.app).declared.passwords.verify

    async def slowly(stored: str | None, password: str) -> bool:
        right = await verify(stored, password)
        await accounts.set_password("ana", "another long password")
        return right

    parts_of(world.app).declared.passwords.verify = slowly  # type: ignore[method-assign]
    assert await (await world.sessions()).sign_in("ana", PASSWORD) is None
    assert await sessions.sign_in("ana", PASSWORD) is None


# Using a session


async def test_text_that_is_not_a_token_identifies_no_caller(world: World) -> None:
    await world.member("ana")
    new = await world.signed_in("ana")
    sessions = await world.sessions()
    strange: list[Any] = ["", "x", "A" * 43, "A" * 44, "é" * 43, None, 7]
    for token in [*strange, digest(new.token), new.signed_in.csrf]:
        assert await sessions.of(token) is None, token
        assert not await sessions.end(token)
        await refused(world, AccessDeniedError, sessions.enter(token, "default"), "sign in again")


async def test_tokens_and_passwords_are_stored_nowhere_and_shown_nowhere_i9(world: World) -> None:
    await world.with_password("ana")
    sessions = await world.sessions()
    link = await sessions.link("ana")
    new = made(await sessions.redeem(link.token))
    await sessions.change_password(new.token, "another long password")
    user = await parts_of(world.app).store.users.named("ana")
    assert user is not None
    assert user.password is not None
    secrets = [new.token, new.signed_in.csrf, link.token, PASSWORD, "another long password"]
    for secret in secrets:
        assert not await world.holds(secret)
    assert await world.holds(digest(new.token))
    for shown in (
        new,
        new.signed_in,
        link,
        await sessions.of(new.token),
        await sessions.list(new.token),
        user,
    ):
        assert not any(secret in f"{shown!r} {shown}" for secret in [*secrets, user.password])


async def test_revoked_rights_are_gone_with_the_next_request_w12(world: World) -> None:
    await world.member("boss")
    await world.member("ana", "ADMIN")
    token = (await world.signed_in("ana")).token
    members = world.members()

    await members.change("ana", role="VIEWER")
    found = await seen(world, token)
    assert found is not None
    assert (found.principal.role, found.principal.permissions) == (Role.VIEWER, permitted(Role.VIEWER))
    await members.change("ana", active=False)
    assert await seen(world, token) is None
    await members.change("ana", active=True)
    assert await seen(world, token) is not None
    await members.remove("ana")
    assert await seen(world, token) is None


@pytest.mark.parametrize(("column", "seconds"), [("expires_at", 0.0), ("seen_at", -12 * 3600.0)])
async def test_a_session_ends_after_its_lifetime_and_when_idle(
    world: World, column: str, seconds: float
) -> None:
    await world.member("ana")
    token = (await world.signed_in("ana")).token
    await tamper(world, token, column, seconds + 60)
    assert await seen(world, token) is not None
    await tamper(world, token, column, seconds)
    assert await seen(world, token) is None
    await refused(world, AccessDeniedError, (await world.sessions()).list(token))


async def test_how_long_sessions_last_is_a_setting(world: World) -> None:
    await world.member("ana")
    sessions = world.another(session_days=1, session_idle_hours=1).members().sessions
    new = made(await sessions.redeem((await sessions.link("ana")).token))
    line = new.signed_in.session
    assert line.expires_at == pytest.approx(line.created_at + 86_400)
    await tamper(world, new.token, "seen_at", -3600.0)
    assert await sessions.of(new.token) is None


async def test_that_a_session_was_seen_is_written_once_a_minute(world: World) -> None:
    await world.member("ana")
    token = (await world.signed_in("ana")).token

    async def seen_at() -> float:
        found = await seen(world, token)
        assert found is not None
        [[stored]] = await world.sql("SELECT seen_at FROM redrive.sessions")
        return float(stored)

    first = await seen_at()
    await tamper(world, token, "seen_at", -50.0)
    assert first - 60 < await seen_at() < first
    await tamper(world, token, "seen_at", -61.0)
    assert await seen_at() >= first


# Entering organizations


async def test_a_user_enters_the_organizations_that_they_are_a_member_of_w13(world: World) -> None:
    for org in ("acme", "beta", "gamma"):
        await world.organization(org)
    await world.member("ana", "VIEWER")
    await world.member("ana", "ADMIN", "acme")
    await world.member("ana", "OWNER", "beta")
    await world.member("bob", "OWNER", "beta")
    await world.members("beta").change("ana", active=False)
    sessions = await world.sessions()
    token = (await world.signed_in("ana")).token
    assert [(each.org, each.role) for each in await sessions.organizations(token)] == [
        ("default", "VIEWER"),
        ("acme", "ADMIN"),
    ]
    entered = await sessions.enter(token, "acme")
    assert (entered.principal.org, entered.principal.role) == ("acme", Role.ADMIN)
    assert await sessions.of(token) == entered
    for org in ("beta", "gamma", "nowhere", "", "a\x00b"):
        await refused(world, NotFoundError, sessions.enter(token, org), "may enter")
    assert (await world.audited("acme"))[-1] == ("ana", "session.entered")
    assert "default" not in repr((await world.app.failures(org="acme").audit.list()).entries[0].detail)


async def test_owners_of_the_home_organization_enter_everywhere_as_owners_w12(world: World) -> None:
    await world.organization("acme")
    await world.member("chief")
    await world.member("chief", "VIEWER", "acme")
    await world.member("other")
    sessions = await world.sessions()
    token = (await world.signed_in("chief")).token
    entered = await sessions.enter(token, "acme")
    assert (entered.principal.role, entered.principal.everywhere) == (Role.OWNER, True)
    assert not entered.principal.at_home
    assert [(each.org, each.role) for each in await sessions.organizations(token)] == [
        ("acme", "OWNER"),
        ("default", "OWNER"),
    ]
    await refused(world, NotFoundError, sessions.enter(token, "nowhere"))

    await world.members().change("chief", role="ADMIN")
    found = await sessions.of(token)
    assert found is not None
    assert (found.principal.role, found.principal.everywhere) == (Role.VIEWER, False)


async def test_an_admin_of_the_home_organization_has_no_access_elsewhere(world: World) -> None:
    await world.organization("acme")
    await world.member("ana", "ADMIN")
    sessions = await world.sessions()
    token = (await world.signed_in("ana")).token
    await refused(world, NotFoundError, sessions.enter(token, "acme"))


# Ending sessions


async def test_signing_out_ends_the_session(world: World) -> None:
    await world.member("ana")
    sessions = await world.sessions()
    token, other = (await world.signed_in("ana")).token, (await world.signed_in("ana")).token
    assert await sessions.end(token)
    assert not await sessions.end(token)
    assert (await sessions.of(token), await sessions.of(other) is None) == (None, False)
    assert [each[1] for each in await world.audited()].count("session.ended") == 1


async def test_users_see_and_end_only_their_own_sessions(world: World) -> None:
    await world.member("ana")
    await world.member("bob")
    sessions = await world.sessions()
    mine = [(await world.signed_in("ana")) for _ in range(3)]
    theirs = await world.signed_in("bob")
    listed = await sessions.list(mine[0].token)
    assert [each.id for each in listed] == [each.signed_in.session.id for each in reversed(mine)]

    foreign = sessions.end_one(mine[0].token, theirs.signed_in.session.id)
    await refused(world, NotFoundError, foreign, "see the list of sessions")
    await sessions.end_one(mine[0].token, mine[1].signed_in.session.id)
    assert await sessions.of(mine[1].token) is None
    assert await sessions.end_others(mine[0].token) == 1
    assert await sessions.end_others(mine[0].token) == 0
    alive = [each for each in (*mine, theirs) if await sessions.of(each.token) is not None]
    assert alive == [mine[0], theirs]
    assert [each[1] for each in await world.audited()].count("session.ended") == 2


# Users' own passwords


async def test_changing_a_password_needs_the_current_one_and_ends_the_other_sessions(world: World) -> None:
    await world.with_password("ana")
    sessions = await world.sessions()
    new = made(await sessions.sign_in("ana", PASSWORD))
    other, link = await world.signed_in("ana"), await sessions.link("ana")
    for current in (None, "wrong password for ana", ""):
        change = sessions.change_password(new.token, "another long password", current=current)
        await refused(world, AccessDeniedError, change, "the current password is wrong")
    short = sessions.change_password(new.token, "short", current=PASSWORD)
    await refused(world, InvalidValueError, short, "12 to 1,024")

    await sessions.change_password(new.token, "another long password", current=PASSWORD)
    assert await sessions.of(new.token) is not None
    assert await sessions.of(other.token) is None
    assert await sessions.redeem(link.token) is None
    assert await sessions.sign_in("ana", PASSWORD) is None
    assert await sessions.sign_in("ana", "another long password") is not None
    assert ("ana", "user.password_changed") in await world.audited()


async def test_after_signing_in_by_a_link_a_password_can_be_set_without_the_old_one(world: World) -> None:
    await world.with_password("ana")
    sessions = await world.sessions()
    token = (await world.signed_in("ana")).token
    await sessions.change_password(token, "another long password")
    await tamper(world, token, "created_at", -3601.0)
    await refused(world, AccessDeniedError, sessions.change_password(token, "a third long password"))


async def test_an_invited_user_sets_a_first_password_by_a_link(world: World) -> None:
    await world.member("ana", "VIEWER")
    sessions = await world.sessions()
    token = (await world.signed_in("ana")).token
    await tamper(world, token, "created_at", -86_400.0)
    await sessions.change_password(token, PASSWORD)
    assert await sessions.sign_in("ana", PASSWORD) is not None


# Links


async def test_a_link_signs_in_once(world: World) -> None:
    await world.member("ana", "STAFF")
    sessions = await world.sessions()
    link = await sessions.link("Ana", minutes=5, by="boss")
    new = made(await sessions.redeem(link.token))
    assert (new.signed_in.principal.name, new.signed_in.session.kind) == ("ana", "link")
    assert new.token != link.token
    assert await sessions.redeem(link.token) is None
    assert [each for each in await world.audited() if each[1] == "member.linked"] == [
        ("boss", "member.linked")
    ]


async def test_one_of_many_concurrent_uses_of_a_link_signs_in(world: World) -> None:
    await world.member("ana")
    link = await (await world.sessions()).link("ana")
    others = [world.another().members().sessions for _ in range(3)]
    results = await asyncio.gather(*(each.redeem(link.token) for each in others * 4))
    assert len([each for each in results if each is not None]) == 1
    [[number]] = await world.sql("SELECT count(*) FROM redrive.sessions")
    assert number == 1


async def test_a_link_is_over_in_the_end(world: World) -> None:
    await world.member("ana")
    sessions = await world.sessions()
    link = await sessions.link("ana", minutes=1)
    await world.sql("UPDATE redrive.one_time_tokens SET expires_at = :now")
    assert await sessions.redeem(link.token) is None


async def test_links_are_for_users_that_there_are(world: World) -> None:
    await world.member("ana")
    sessions = await world.sessions()
    await refused(world, NotFoundError, sessions.link("nobody"), "found no user")
    for minutes in (0, -1, 10_081, float("nan"), "5"):
        await refused(world, InvalidValueError, sessions.link("ana", minutes=minutes))  # type: ignore[arg-type]


async def test_the_embedded_link_makes_the_operator_an_owner_once(world: World) -> None:
    others = [world.another().members().sessions for _ in range(3)]
    links = await asyncio.gather(*(each.embedded_link() for each in others))
    tokens = {link.token for link in links if link is not None}
    assert len(tokens) == 3
    new = made(await others[0].redeem(tokens.pop()))
    assert new.signed_in.principal[:3] == ("default", "operator", Role.OWNER)
    assert await world.owners() == ["operator"]
    assert await world.audited() == [
        ("redrive", "member.added"),
        *[("redrive", "member.linked")] * 3,
        ("operator", "session.started"),
    ]
    await world.check()


async def test_an_operator_without_permissions_gets_no_link(world: World) -> None:
    sessions = await world.sessions()
    assert await sessions.embedded_link() is not None
    await world.member("boss")
    members = world.members()
    await members.accounts.disable("operator")
    assert await sessions.embedded_link() is None
    await members.accounts.enable("operator")
    assert await sessions.embedded_link() is not None
    await members.remove("operator")
    assert await sessions.embedded_link() is None
    assert await world.owners() == ["boss"]


# Providers and proxies


async def test_a_provider_names_a_user_once_and_identifies_them_from_then_on(world: World) -> None:
    await world.member("ana@example.com", "STAFF")
    sessions = await world.sessions()
    new = made(await sessions.sign_in_identified(ANA, "Ana@example.com"))
    assert (new.signed_in.principal.name, new.signed_in.session.kind) == ("ana@example.com", "oidc")
    renamed = made(await sessions.sign_in_identified(ANA, "ana.ruiz@example.com"))
    assert renamed.signed_in.principal.name == "ana@example.com"


async def test_a_provider_cannot_replace_a_user_with_another_person(world: World) -> None:
    await world.member("ana@example.com", "STAFF")
    await world.member("bob@example.com", "STAFF")
    sessions = await world.sessions()
    assert await sessions.sign_in_identified(ANA, "ana@example.com") is not None
    before = await world.everything()
    for identity in (Identity(ANA.issuer, "user-8"), Identity("https://other.example.com", ANA.subject)):
        assert await sessions.sign_in_identified(identity, "ana@example.com") is None
        assert await sessions.sign_in_identified(identity, "stranger@example.com") is None
    for identity in (Identity("", ""), Identity("x" * 501, "7"), Identity("a\x00b", "7")):
        assert await sessions.sign_in_identified(identity, "bob@example.com") is None
    assert await world.everything() == before


async def test_a_proxy_names_users_that_there_are(world: World) -> None:
    await world.member("ana", "STAFF")
    sessions = await world.sessions()
    new = made(await sessions.sign_in_forwarded("ANA"))
    assert new.signed_in.session.kind == "forward"
    for name in ("nobody", "", "key:ci", "redrive"):
        assert await sessions.sign_in_forwarded(name) is None


async def test_no_provider_or_proxy_can_name_the_operator(world: World) -> None:
    """The operator owns what Redrive does on its own, and outsiders may have the same name (W12)."""
    sessions = await world.sessions()
    assert await sessions.embedded_link() is not None
    before = await world.everything()
    assert await sessions.sign_in_forwarded("operator") is None
    assert await sessions.sign_in_identified(ANA, "operator") is None
    assert await world.everything() == before


async def test_a_provider_or_proxy_signs_in_only_enabled_members(world: World) -> None:
    await world.member("boss")
    await world.member("ana", "STAFF")
    members, sessions = world.members(), await world.sessions()
    assert await sessions.sign_in_identified(ANA, "ana") is not None
    await members.accounts.disable("ana")
    assert await sessions.sign_in_identified(ANA, "ana") is None
    assert await sessions.sign_in_forwarded("ana") is None
    await members.accounts.enable("ana")
    await members.remove("ana")
    assert await sessions.sign_in_identified(ANA, "ana") is None
    assert await sessions.sign_in_forwarded("ana") is None


# One-time tokens


async def test_a_token_is_redeemed_once_by_its_kind(world: World) -> None:
    sessions = await world.sessions()
    token = await sessions.put("oidc", {"nonce": "n-0S6_WzA2Mj", "to": "/app"}, 600)
    assert await sessions.take("forward", token) is None
    assert await sessions.take("oidc", token) == {"nonce": "n-0S6_WzA2Mj", "to": "/app"}
    assert await sessions.take("oidc", token) is None
    assert not await world.holds(token)


async def test_links_and_other_tokens_are_no_substitute_for_each_other(world: World) -> None:
    await world.member("ana")
    sessions = await world.sessions()
    assert await sessions.redeem(await sessions.put("oidc", {}, 600)) is None
    link = await sessions.link("ana")
    assert await sessions.take("oidc", link.token) is None
    for kind in ("link", "", "x" * 51, "a\nb"):
        await refused(world, InvalidValueError, sessions.take(kind, link.token), "must have 1 to 50")
        await refused(world, InvalidValueError, sessions.put(kind, {}, 600), "must have 1 to 50")
    assert await sessions.redeem(link.token) is not None


async def test_login_state_is_encrypted_if_there_is_a_key_i9(world: World) -> None:
    sessions = world.another(encryption_keys=(Fernet.generate_key().decode(),)).members().sessions
    token = await sessions.put("oidc", {"verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r"}, 600)
    assert not await world.holds("dBjftJeZ4CVP-mB92K27uhbUJU1p1r")
    assert await sessions.take("oidc", token) == {"verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r"}


# Deleting


async def test_expired_tokens_are_deleted_in_limited_batches(world: World) -> None:
    await world.member("ana")
    sessions: UserSessions = await world.sessions()
    tokens = [(await world.signed_in("ana")).token for _ in range(4)]
    kept = await sessions.put("oidc", {}, timedelta(minutes=10))
    for _ in range(3):
        await sessions.put("oidc", {}, 600)
    for token in tokens[1:]:
        await tamper(world, token, "expires_at", 0.0)
    await world.sql(
        "UPDATE redrive.one_time_tokens SET expires_at = :now WHERE hash <> :hash", hash=digest(kept)
    )

    assert [await sessions.sweep(2), await sessions.sweep(2), await sessions.sweep(2)] == [4, 2, 0]
    assert await sessions.of(tokens[0]) is not None
    assert await sessions.take("oidc", kept) == {}
    await refused(world, InvalidValueError, sessions.sweep(0))
