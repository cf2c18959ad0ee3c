"""Passwords: argon2id, the same cost for every name, and never many at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Lock
from time import sleep
from typing import Any

import pytest
from argon2 import PasswordHasher
from tests.engine.workbench import app_at
from tests.identity.identity_world import PASSWORD, QUICK

from redrive.app import Redrive
from redrive.errors import InvalidValueError, UnavailableError
from redrive.identity.passwords import MAX_CONCURRENT, MAX_WAITING, Passwords
from redrive.parts import parts_of


class Watched:
    """A real hasher that counts concurrent calls."""

    def __init__(self) -> None:
        self.verified: list[str] = []
        self.hashed = 0
        self.at_once = self.most_at_once = 0
        self._lock = Lock()

    def hash(self, password: str) -> str:
        self.hashed += 1
        return QUICK.hash(password)

    def verify(self, stored: str, password: str) -> bool:
        self.verified.append(stored)
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            sleep(0.001)  # so that the test would notice a third one
            return QUICK.verify(stored, password)
        finally:
            with self._lock:
                self.at_once -= 1

    def check_needs_rehash(self, stored: str) -> bool:
        return QUICK.check_needs_rehash(stored)


async def test_the_default_is_the_recommendation_of_the_library() -> None:
    passwords, recommended = Passwords(), PasswordHasher()
    stored = await passwords.hash(PASSWORD)
    assert stored.startswith("$argon2id$")
    assert f"m={recommended.memory_cost},t={recommended.time_cost},p={recommended.parallelism}" in stored
    assert await passwords.verify(stored, PASSWORD)
    assert not passwords.is_outdated(stored)
    assert passwords.is_outdated(QUICK.hash(PASSWORD))


async def test_only_the_password_itself_is_right() -> None:
    passwords = Passwords(QUICK)
    stored = await passwords.hash(PASSWORD)
    assert stored != await passwords.hash(PASSWORD)
    for wrong in (PASSWORD + " ", PASSWORD[:-1], "", "nobody has this password", "x" * 2000):
        assert not await passwords.verify(stored, wrong)
    for damaged in ("", "plain text", stored[:-5], None):
        assert not await passwords.verify(damaged, PASSWORD)


async def test_the_dummy_password_signs_no_user_in() -> None:
    passwords = Passwords(QUICK)
    assert not await passwords.verify(None, "nobody has this password")


async def test_an_unknown_name_takes_as_long_as_a_known_one() -> None:
    watched = Watched()
    passwords = Passwords(watched)
    stored = await passwords.hash(PASSWORD)
    await passwords.verify(stored, "a wrong password")
    known = (len(watched.verified), watched.hashed)
    await passwords.verify(None, "a wrong password")
    assert (len(watched.verified), watched.hashed) == (known[0] + 1, known[1])
    assert (
        watched.verified[-1].rpartition("$")[0].rpartition("$")[0]
        == stored.rpartition("$")[0].rpartition("$")[0]
    )


async def test_no_more_than_two_at_once_and_none_is_lost() -> None:
    watched = Watched()
    passwords = Passwords(watched)
    stored = await passwords.hash(PASSWORD)
    right = await asyncio.gather(*(passwords.verify(stored, PASSWORD) for _ in range(20)))
    assert all(right)
    assert watched.most_at_once == MAX_CONCURRENT


async def test_a_flood_is_rejected_and_earlier_callers_are_served() -> None:
    passwords = Passwords(QUICK)
    stored = await passwords.hash(PASSWORD)
    calls = [passwords.verify(stored, PASSWORD) for _ in range(MAX_WAITING + 3)]
    results: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
    assert results[:MAX_WAITING] == [True] * MAX_WAITING
    assert [type(each) for each in results[MAX_WAITING:]] == [UnavailableError] * 3
    assert await passwords.verify(stored, PASSWORD)


async def test_the_error_does_not_repeat_a_rejected_password() -> None:
    with pytest.raises(InvalidValueError) as refused:
        await Passwords(QUICK).hash("hunter2")
    assert "hunter2" not in str(refused.value)


async def signed_in(app: Redrive, password: str = PASSWORD) -> bool:
    return await app.members().sessions.sign_in("ana", password) is not None


async def test_an_older_hash_is_renewed_at_the_next_sign_in(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    parts_of(app).declared.passwords = Passwords(QUICK)
    async with app:
        members = app.members()
        await members.add("ana", "OWNER")
        await members.accounts.set_password("ana", PASSWORD)
        parts_of(app).declared.passwords = Passwords(
            PasswordHasher(time_cost=2, memory_cost=64, parallelism=1)
        )
        before = await parts_of(app).store.users.named("ana")
        assert not await signed_in(app, "a wrong password")
        assert await parts_of(app).store.users.named("ana") == before
        assert await signed_in(app)
        after = await parts_of(app).store.users.named("ana")
        assert before is not None
        assert after is not None
        assert after.password is not None
        assert "t=2" in after.password
        assert after.password_number == before.password_number
        assert await signed_in(app)


async def test_users_who_sign_in_while_a_hash_is_renewed_are_admitted(tmp_path: Path) -> None:
    app = app_at(tmp_path / "work.db")
    parts_of(app).declared.passwords = Passwords(QUICK)
    async with app:
        members = app.members()
        await members.add("ana", "OWNER")
        await members.accounts.set_password("ana", PASSWORD)
        parts_of(app).declared.passwords = Passwords(
            PasswordHasher(time_cost=2, memory_cost=64, parallelism=1)
        )
        assert await asyncio.gather(*(signed_in(app) for _ in range(6))) == [True] * 6
