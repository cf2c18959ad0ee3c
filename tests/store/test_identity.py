"""The tables of identity on both databases: unique names, one-time tokens, and the rows of each org."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from tests.store.build import ask, value

from redrive.errors import NotFoundError, StoreError
from redrive.model.identity import ApiKey, Identity, SignInKind, User
from redrive.model.role import Role
from redrive.store.api_keys import NewApiKey
from redrive.store.database import Database
from redrive.store.memberships import Roles
from redrive.store.one_time import NewOneTime
from redrive.store.sessions import NewSessionRow
from redrive.store.store import Store


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


def new_id() -> str:
    return uuid.uuid4().hex


async def user(store: Store, name: str) -> User:
    async with store.database.transaction() as session:
        made = await store.users.insert(session, new_id(), name, "default", "test")
    assert made is not None
    return made


async def key(store: Store, name: str = "ci", org: str = "default") -> ApiKey:
    new = NewApiKey(
        id=new_id(),
        org=org,
        name=name,
        role=Role.ADMIN,
        scopes=["read"],
        hash="hash of " + name,
        by="test",
        lifetime=None,
    )
    async with store.database.transaction() as session:
        made = await store.api_keys.insert(session, new)
    assert made is not None
    return made


async def session_of(store: Store, someone: User, hash_: str, lifetime: float = 60.0) -> None:
    row = NewSessionRow(
        hash=hash_, id=new_id(), user_id=someone.id, org="default", kind=SignInKind.LINK, lifetime=lifetime
    )
    async with store.database.transaction() as session:
        await store.sessions.insert(session, row)


# Organizations


async def test_a_new_database_has_one_organization(store: Store) -> None:
    [found] = await store.organizations.page(10, "")
    applied = await value(store.database, "SELECT min(applied_at) FROM redrive.migrations")
    assert (found.name, found.created_at, found.created_by) == ("default", applied, "redrive")


# Users


async def test_a_name_has_one_account(store: Store) -> None:
    first = await user(store, "ana")
    async with store.database.transaction() as session:
        assert await store.users.insert(session, new_id(), "ana", "acme", "test") is None
    assert await store.users.named("ana") == first == await store.users.get(first.id)


async def test_an_identity_has_one_account_and_an_account_one_identity(store: Store) -> None:
    ana, bob = await user(store, "ana"), await user(store, "bob")
    one, two = Identity("issuer", "1"), Identity("issuer", "2")
    async with store.database.transaction() as session:
        assert await store.users.identify(session, ana.id, one) is not None
        assert await store.users.identify(session, ana.id, two) is None
        assert await store.users.identify(session, bob.id, one) is None
        assert await store.users.identify(session, bob.id, Identity("other issuer", "1")) is not None
    found = await store.users.identified(one)
    assert found is not None
    assert found.id == ana.id
    with pytest.raises(StoreError):  # even if the statement's check is bypassed
        await ask(
            store.database,
            "UPDATE redrive.users SET issuer = 'issuer', subject = '1' WHERE id = :id",
            id=bob.id,
        )


async def test_the_repr_of_a_user_has_no_hash(store: Store) -> None:
    ana = (await user(store, "ana")).replace(password="$argon2id$v=19$secret")
    assert "argon2" not in f"{ana!r} {ana}"


# Exactly once


@pytest.mark.parametrize("takers", [20])
async def test_a_token_is_taken_by_one_of_many_callers(store: Store, database: Database, takers: int) -> None:
    others = [Store(database.another()) for _ in range(3)]
    for number in range(5):
        await store.one_time.insert(
            NewOneTime(hash=f"hash {number}", kind="oidc", body="body", by="test", seconds=60.0)
        )
        calls = [others[each % 3].one_time.take("oidc", f"hash {number}") for each in range(takers)]
        taken = await asyncio.gather(*calls)
        assert [each.body for each in taken if each is not None] == ["body"]
    for other in others:
        await other.close()


async def test_a_token_taken_in_a_transaction_that_fails_is_still_there(store: Store) -> None:
    await store.one_time.insert(NewOneTime(hash="hash", kind="oidc", body="body", by="test", seconds=60.0))
    with pytest.raises(RuntimeError):
        async with store.database.transaction() as session:
            assert await store.one_time.take("oidc", "hash", session) is not None
            raise RuntimeError("the disk is on fire")
    assert await store.one_time.take("oidc", "hash") is not None


async def test_expired_tokens_and_tokens_of_another_kind_are_not_taken(store: Store) -> None:
    await store.one_time.insert(NewOneTime(hash="hash", kind="oidc", body="body", by="test", seconds=0.0))
    assert await store.one_time.take("oidc", "hash") is None
    await store.one_time.insert(NewOneTime(hash="other", kind="oidc", body="body", by="test", seconds=60.0))
    assert await store.one_time.take("link", "other") is None
    assert await store.one_time.take("oidc", "other") is not None


# Keys


async def test_a_use_is_noted_after_the_pause_and_not_before(store: Store) -> None:
    made = await key(store)

    async def used() -> float | None:
        found = await store.api_keys.known(made.id)
        assert found is not None
        return found.key.last_used_at

    await store.api_keys.touch(made.id, 60.0)
    first = await used()
    assert first is not None
    await ask(store.database, "UPDATE redrive.api_keys SET last_used_at = last_used_at - 30")
    await store.api_keys.touch(made.id, 60.0)
    assert await used() == first - 30
    await store.api_keys.touch(made.id, 20.0)
    assert (await used() or 0.0) >= first


async def test_keys_are_found_in_their_organization_alone(store: Store) -> None:
    mine, theirs = await key(store, org="acme"), await key(store, org="beta")
    assert await store.api_keys.find("acme", "ci") == mine
    assert await store.api_keys.find("acme", theirs.id) is None
    assert await store.api_keys.page("acme", 10, None) == [mine]
    assert await store.api_keys.page("acme", 10, "f" * 32) == [mine]
    async with store.database.transaction() as session:
        assert await store.api_keys.lock(session, "acme", theirs.id) is None


async def test_two_active_keys_cannot_have_the_same_name(store: Store) -> None:
    first = await key(store)
    new = NewApiKey(
        id=new_id(),
        org="default",
        name="ci",
        role=Role.VIEWER,
        scopes=None,
        hash="hash",
        by="test",
        lifetime=None,
    )
    async with store.database.transaction() as session:
        assert await store.api_keys.insert(session, new) is None
        await store.api_keys.revoke(session, first, "test")
        assert await store.api_keys.insert(session, new) is not None


# Sessions


async def test_an_unknown_session_and_an_expired_one_look_the_same(store: Store) -> None:
    ana = await user(store, "ana")
    await session_of(store, ana, "old", lifetime=0.0)
    await session_of(store, ana, "new")
    assert await store.sessions.known("old", 3600.0) is None
    assert await store.sessions.known("never was", 3600.0) is None
    found = await store.sessions.known("new", 3600.0)
    assert found is not None
    assert (found.user_name, found.roles) == ("ana", Roles(None, None))
    assert await store.sessions.known("new", 0.0) is None


async def test_expired_rows_are_removed_a_limited_number_at_a_time(store: Store) -> None:
    ana = await user(store, "ana")
    for number in range(5):
        await session_of(store, ana, f"old {number}", lifetime=-1.0)
        await store.one_time.insert(
            NewOneTime(hash=f"old {number}", kind="oidc", body="", by="test", seconds=-1.0)
        )
    await session_of(store, ana, "new")
    await store.one_time.insert(NewOneTime(hash="new", kind="oidc", body="", by="test", seconds=60.0))
    assert [await store.sessions.remove_expired(3) for _ in range(3)] == [3, 2, 0]
    assert [await store.one_time.remove_expired(3) for _ in range(3)] == [3, 2, 0]
    assert await value(store.database, "SELECT count(*) FROM redrive.sessions") == 1
    assert await value(store.database, "SELECT count(*) FROM redrive.one_time_tokens") == 1


# Organizations


@pytest.mark.parametrize("name", ["nowhere", "", "a\x00b", "\ud800", None])
async def test_an_organization_that_is_not_there(store: Store, name: str) -> None:
    with pytest.raises(NotFoundError):
        await store.organizations.get(name)
    async with store.database.transaction() as session:
        with pytest.raises(NotFoundError):
            await store.organizations.lock(session, name)
