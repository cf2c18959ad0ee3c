"""Idempotency keys in the tables: one caller takes a key, a token fences it, and time frees it (G6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.store.build import EXPIRED, ask, value

from redrive.model.idempotency import KeyName, KeyStatus
from redrive.store.database import Database
from redrive.store.idempotency import IdempotencyKeys, KeyRenewal

NAME = KeyName(org="acme", domain="http", user_id="ana", key="order-7")
LEASE, DAY = 60.0, 86_400.0
TABLE = "SELECT * FROM redrive.idempotency_keys ORDER BY org, domain, user_id, key"


@pytest.fixture
def keys(database: Database) -> IdempotencyKeys:
    return IdempotencyKeys(database)


async def acquire(
    keys: IdempotencyKeys,
    token: int,
    *,
    name: KeyName = NAME,
    request: str = "request",
    lease: float = LEASE,
    ttl: float = DAY,
) -> bool:
    return await keys.acquire(name, request, token, lease_seconds=lease, ttl=ttl)


async def status(keys: IdempotencyKeys, name: KeyName = NAME) -> KeyStatus | None:
    state = await keys.find(name)
    return None if state is None else state.status


async def test_it_has_the_columns_of_g6(database: Database, keys: IdempotencyKeys) -> None:
    wanted = (
        "org, key, domain, user_id, status, request_hash, response, error, expires_at, created_at, updated_at"
    )
    assert await acquire(keys, 1)

    [row] = await ask(database, f"SELECT {wanted} FROM redrive.idempotency_keys")

    assert row[:8] == ("acme", "order-7", "http", "ana", "processing", "request", None, None)
    expires_at, created_at, updated_at = row[8:]
    assert (expires_at - created_at, updated_at) == (pytest.approx(DAY, abs=1.0), created_at)


async def test_a_key_is_taken_once(keys: IdempotencyKeys) -> None:
    assert await acquire(keys, 1)
    assert not await acquire(keys, 2)
    assert not await acquire(keys, 3, request="another")

    state = await keys.find(NAME)
    assert state is not None
    assert state.is_held
    assert (state.status, state.request_hash) == (KeyStatus.PROCESSING, "request")
    assert state.age >= 0.0
    assert 0.0 < state.lease_left <= LEASE


async def test_one_of_a_hundred_concurrent_callers_takes_it(database: Database) -> None:
    others = [database.another() for _ in range(4)]
    try:
        taken = [acquire(IdempotencyKeys(others[token % 4]), token) for token in range(100)]
        won = await asyncio.gather(*taken)
    finally:
        for other in others:
            await other.close()

    assert sum(won) == 1
    assert await value(database, "SELECT token FROM redrive.idempotency_keys") == won.index(True)


@pytest.mark.parametrize("field", ["org", "domain", "user_id", "key"])
async def test_another_org_user_or_domain_has_its_own_keys_i8(keys: IdempotencyKeys, field: str) -> None:
    other = NAME._replace(**{field: "another"})
    assert await acquire(keys, 1)
    assert await keys.complete_if_held(NAME, 1, '"mine"', ttl=DAY)

    assert await keys.find(other) is None
    assert await acquire(keys, 2, name=other)
    assert not await keys.complete_if_held(other, 1, '"stolen"', ttl=DAY)
    state = await keys.find(NAME)
    assert state is not None
    assert state.response == '"mine"'


# Expiry


async def test_a_key_whose_lease_has_ended_is_free_for_the_same_request_only(keys: IdempotencyKeys) -> None:
    assert await acquire(keys, 1, lease=EXPIRED)

    assert not await acquire(keys, 2, request="another")
    assert await acquire(keys, 3)
    assert not await acquire(keys, 4)
    assert not await keys.complete_if_held(NAME, 1, "1", ttl=DAY)


async def test_an_expired_key_is_free_for_any_request(keys: IdempotencyKeys) -> None:
    assert await acquire(keys, 1)
    assert await keys.complete_if_held(NAME, 1, "1", ttl=EXPIRED)

    assert await acquire(keys, 2, request="another")
    state = await keys.find(NAME)
    assert state is not None
    assert (state.status, state.request_hash, state.response) == (KeyStatus.PROCESSING, "another", None)


async def test_a_completed_key_stays_taken_after_its_lease_has_ended(keys: IdempotencyKeys) -> None:
    assert await acquire(keys, 1, lease=EXPIRED)
    assert await keys.complete_if_held(NAME, 1, "1", ttl=DAY)

    assert not await acquire(keys, 2)


async def test_expiry_does_not_take_a_key_from_its_holder(keys: IdempotencyKeys) -> None:
    assert await acquire(keys, 1, ttl=EXPIRED)

    assert not await acquire(keys, 2)
    assert await keys.remove_expired(10) == 0


async def test_the_time_to_live_begins_with_the_end(database: Database, keys: IdempotencyKeys) -> None:
    assert await acquire(keys, 1, ttl=EXPIRED)
    assert await keys.complete_if_held(NAME, 1, "1", ttl=DAY)

    state = await keys.find(NAME)
    assert state is not None
    assert state.time_left > DAY - 60.0


# Fencing

Write = Callable[[IdempotencyKeys, int], Awaitable[object]]
WRITES: dict[str, Write] = {
    "complete": lambda keys, token: keys.complete_if_held(NAME, token, "2", ttl=DAY),
    "fail": lambda keys, token: keys.fail_if_held(NAME, token, "{}", ttl=DAY),
    "release": lambda keys, token: keys.release_if_held(NAME, token),
    "renew": lambda keys, token: keys.renew_if_held([KeyRenewal(*NAME, token, LEASE)]),
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_caller_that_has_lost_a_key_changes_nothing_i4(
    database: Database, keys: IdempotencyKeys, write: str
) -> None:
    assert await acquire(keys, 1, lease=EXPIRED)
    assert await acquire(keys, 2)
    before = await ask(database, TABLE)

    assert not await WRITES[write](keys, 1)

    assert await ask(database, TABLE) == before
    assert await WRITES[write](keys, 2)


async def test_a_late_end_counts_if_no_other_caller_has_the_key(keys: IdempotencyKeys) -> None:
    assert await acquire(keys, 1, lease=EXPIRED)
    assert await keys.complete_if_held(NAME, 1, "1", ttl=DAY)
    assert await status(keys) is KeyStatus.COMPLETED


async def test_a_write_whose_answer_was_lost_can_be_repeated(keys: IdempotencyKeys) -> None:
    assert await acquire(keys, 1)
    assert await acquire(keys, 1)
    assert await keys.complete_if_held(NAME, 1, "1", ttl=DAY)
    assert await keys.complete_if_held(NAME, 1, "1", ttl=DAY)
    assert not await acquire(keys, 1)
    state = await keys.find(NAME)
    assert state is not None
    assert (state.status, state.response) == (KeyStatus.COMPLETED, "1")


async def test_a_finished_request_is_neither_released_nor_renewed(keys: IdempotencyKeys) -> None:
    assert await acquire(keys, 1)
    assert await keys.complete_if_held(NAME, 1, "1", ttl=DAY)

    assert not await keys.release_if_held(NAME, 1)
    assert await keys.renew_if_held([KeyRenewal(*NAME, 1, LEASE)]) == set()
    assert await status(keys) is KeyStatus.COMPLETED


async def test_a_released_key_leaves_no_trace(database: Database, keys: IdempotencyKeys) -> None:
    assert await acquire(keys, 1)
    assert await keys.release_if_held(NAME, 1)
    assert await ask(database, TABLE) == []


async def test_renewing_returns_the_keys_still_held(keys: IdempotencyKeys) -> None:
    others = [NAME._replace(key=f"key-{number}") for number in range(3)]
    for token, name in enumerate(others, 1):
        assert await acquire(keys, token, name=name, lease=5.0)
    assert await keys.release_if_held(others[1], 2)

    assert await keys.renew_if_held(
        [KeyRenewal(*name, token, LEASE) for token, name in enumerate(others, 1)]
    ) == {1, 3}

    state = await keys.find(others[0])
    assert state is not None
    assert state.lease_left > 5.0


async def test_re_encryption_replaces_only_the_value_that_was_read(
    keys: IdempotencyKeys,
) -> None:
    assert await acquire(keys, 1)
    assert await keys.complete_if_held(NAME, 1, '"old"', ttl=EXPIRED)
    [read] = await keys.stale("$sealed", 10, KeyName(org="", domain="", user_id="", key=""))
    sealed = [read._replace(response="$sealed")]
    assert await acquire(keys, 1)
    await keys.rewrite(sealed)
    state = await keys.find(NAME)
    assert state is not None
    assert state.response is None, "it is being executed again"
    assert await keys.release_if_held(NAME, 1)
    assert await acquire(keys, 2)
    assert await keys.complete_if_held(NAME, 2, '"new"', ttl=DAY)
    await keys.rewrite(sealed)
    state = await keys.find(NAME)
    assert state is not None
    assert state.response == '"new"'


# Cleanup


async def test_sweeping_removes_a_few_of_the_oldest_expired_keys(
    database: Database, keys: IdempotencyKeys
) -> None:
    for token, ttl in ((1, -300.0), (2, -200.0), (3, -100.0), (4, DAY)):
        name = NAME._replace(key=f"key-{token}")
        assert await acquire(keys, token, name=name)
        assert await keys.complete_if_held(name, token, "1", ttl=ttl)
    crashed = NAME._replace(key="crashed")
    assert await acquire(keys, 5, name=crashed, lease=EXPIRED, ttl=-50.0)

    assert await keys.remove_expired(2) == 2
    tokens = "SELECT token FROM redrive.idempotency_keys ORDER BY token"
    assert await ask(database, tokens) == [(3,), (4,), (5,)]
    assert await keys.remove_expired(10) == 2
    assert await ask(database, tokens) == [(4,)]


async def test_several_sweepers_share_the_work(database: Database, keys: IdempotencyKeys) -> None:
    for token in range(30):
        name = NAME._replace(key=f"key-{token}")
        assert await acquire(keys, token, name=name, lease=EXPIRED, ttl=EXPIRED)
    others = [database.another() for _ in range(3)]
    try:
        removed = await asyncio.gather(*(IdempotencyKeys(other).remove_expired(20) for other in others))
    finally:
        for other in others:
            await other.close()

    assert sum(removed) + await keys.remove_expired(100) == 30
