"""The authenticator caches a credential for two seconds, and drops it when this process revokes it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.engine.hand_clock import HandClock
from tests.server.house import House

from redrive.identity.credentials import CredentialLookup
from redrive.parts import parts_of
from redrive.policy.access import Principal
from redrive.server import authenticator as module
from redrive.server.authenticator import TRUSTED_SECONDS, Authenticator


class KeyLookups:
    """Counts lookups of keys in the database, and runs `during` in the middle of each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        self.during: Any = None
        real = CredentialLookup.of_key

        async def of_key(lookup: CredentialLookup, text: str) -> Principal | None:
            self.times += 1
            found = await real(lookup, text)
            if self.during is not None:
                await self.during()
            return found

        monkeypatch.setattr(CredentialLookup, "of_key", of_key)


def shown(key: str) -> Any:
    return SimpleNamespace(headers={"authorization": f"Bearer {key}"}, cookies={})


async def test_a_key_is_looked_up_once_in_a_moment(
    small_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, asked, clock = await small_house.key(), KeyLookups(monkeypatch), HandClock()
    monkeypatch.setattr(parts_of(small_house.app), "clock", clock)
    authenticator = Authenticator(small_house.app)
    for _ in range(3):
        assert await authenticator.authenticate(shown(key)) is not None
    assert asked.times == 1
    clock.time += TRUSTED_SECONDS
    assert await authenticator.authenticate(shown(key)) is not None
    assert asked.times == 2


async def test_a_credential_revoked_by_another_process_is_rejected_after_a_moment(
    small_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, clock = await small_house.key(name="ci"), HandClock()
    monkeypatch.setattr(parts_of(small_house.app), "clock", clock)
    authenticator = Authenticator(small_house.app)
    assert await authenticator.authenticate(shown(key)) is not None
    await small_house.app.members().keys.revoke("ci")
    clock.time += TRUSTED_SECONDS
    assert await authenticator.authenticate(shown(key)) is None


async def test_a_key_revoked_during_its_lookup_is_not_cached(
    small_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, asked = await small_house.key(name="ci"), KeyLookups(monkeypatch)
    authenticator = Authenticator(small_house.app)

    async def revoke() -> None:
        asked.during = None
        await small_house.app.members().keys.revoke("ci")
        authenticator.forget()

    asked.during = revoke
    await authenticator.authenticate(shown(key))
    assert await authenticator.authenticate(shown(key)) is None


async def test_simultaneous_requests_share_one_lookup(
    small_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, asked = await small_house.key(), KeyLookups(monkeypatch)
    authenticator, together = Authenticator(small_house.app), asyncio.Event()
    asked.during = together.wait
    first, *others = [asyncio.create_task(authenticator.authenticate(shown(key))) for _ in range(4)]
    while asked.times == 0:
        await asyncio.sleep(0)
    first.cancel()  # its client disconnected
    together.set()
    assert None not in await asyncio.gather(*others)
    assert first.cancelled()
    assert asked.times == 1


async def test_a_request_after_a_revocation_does_not_share_an_earlier_lookup(
    small_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, asked = await small_house.key(name="ci"), KeyLookups(monkeypatch)
    authenticator, answered = Authenticator(small_house.app), asyncio.Event()
    asked.during = answered.wait
    earlier = asyncio.create_task(authenticator.authenticate(shown(key)))
    while asked.times == 0:
        await asyncio.sleep(0)
    asked.during = None
    await small_house.app.members().keys.revoke("ci")
    authenticator.forget()
    assert await authenticator.authenticate(shown(key)) is None
    answered.set()
    assert await earlier is not None
    assert await authenticator.authenticate(shown(key)) is None


async def test_the_cache_of_the_authenticator_is_limited(
    small_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    keys, asked = [await small_house.key() for _ in range(3)], KeyLookups(monkeypatch)
    authenticator = Authenticator(small_house.app)
    for key in (*keys, keys[2], keys[1], keys[0]):
        assert await authenticator.authenticate(shown(key)) is not None
    assert asked.times == 4


async def test_a_key_is_not_a_cookie_and_a_cookie_is_not_a_key(small_house: House) -> None:
    key = await small_house.key()
    assert (await small_house.client(key).get("/api/v1/session")).status_code == 200
    as_cookie = small_house.client(Cookie=f"redrive_session={key}")
    assert (await as_cookie.get("/api/v1/session")).status_code == 401
