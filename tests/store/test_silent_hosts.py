"""PostgreSQL servers that accept a connection and don't respond, alone or among several hosts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
import uvloop
from tests.servers import HOST, MortalPostgres, PostgresServer, mortal_postgresql

from redrive.errors import InvalidValueError, StoreError, StoreUnavailableError
from redrive.store import postgres_connections, postgres_hosts, postgres_watch
from redrive.store.postgres import PostgresDatabase
from redrive.store.postgres_connections import Connections
from redrive.store.postgres_failure import failure_of
from redrive.store.postgres_hosts import Hosts
from redrive.store.statement import SqlQuery, Statement

LONG = 30.0
"""Seconds; less than COMMAND_TIMEOUT, which must not be the limit that ends a wait here."""


def adhoc(text: str) -> Statement:
    return Statement(SqlQuery("test", text, ()), SqlQuery("test", text, ()))


ONE = adhoc("SELECT 1")


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(url, **options)
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
def silent() -> Iterator[SimpleNamespace]:
    """A host whose kernel accepts connections, but no process responds."""
    with socket.socket() as listening:
        listening.bind((HOST, 0))
        listening.listen()
        listening.settimeout(0.0)
        yield SimpleNamespace(socket=listening, place=f"{HOST}:{listening.getsockname()[1]}")


def attempts(silent: SimpleNamespace) -> int:
    """Return the number of connections to the silent host since the last call."""
    count = 0
    while True:
        try:
            silent.socket.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


@pytest.fixture
def mortal() -> Iterator[MortalPostgres]:
    with mortal_postgresql() as server:
        yield server


# Several hosts


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("postgresql://me:pw@one/db?a=b%20c", ["postgresql://me:pw@one/db?a=b%20c"]),
        ("postgresql:///db", ["postgresql:///db"]),
        (
            "postgresql://me:p%40w@one:1,two,[::1]:3/db?sslmode=disable",
            [
                "postgresql://me:p%40w@one:1/db?sslmode=disable",
                "postgresql://me:p%40w@two/db?sslmode=disable",
                "postgresql://me:p%40w@[::1]:3/db?sslmode=disable",
            ],
        ),
        (
            "postgresql://me@/db?host=/run/a,/run/b&port=1,2&options=-c%20x%3Dy",
            [
                "postgresql://me@/db?host=%2Frun%2Fa&port=1&options=-c+x%3Dy",
                "postgresql://me@/db?host=%2Frun%2Fb&port=2&options=-c+x%3Dy",
            ],
        ),
        (
            "postgresql:///db?host=a,b&port=5433",
            ["postgresql:///db?host=a&port=5433", "postgresql:///db?host=b&port=5433"],
        ),
        ("postgresql:///db?host=a,b", ["postgresql:///db?host=a", "postgresql:///db?host=b"]),
    ],
)
def test_an_address_has_its_hosts(url: str, addresses: list[str]) -> None:
    assert Hosts(url).addresses == addresses


def test_only_several_hosts_need_the_primary_to_be_found() -> None:
    assert Hosts("postgresql://a,b/db").need_the_primary
    assert not Hosts("postgresql://a/db").need_the_primary
    assert not Hosts("postgresql://a,b/db?target_session_attrs=any").need_the_primary
    with pytest.raises(InvalidValueError, match="not a URL"):
        Hosts("postgresql://[a,b/db")


async def test_7_a_silent_first_host_is_passed_by_and_then_tried_last(
    live_postgres: PostgresServer, silent: SimpleNamespace
) -> None:
    url = live_postgres.url.replace("@", f"@{silent.place},")

    async with asyncio.timeout(LONG), opened(url, connections=2) as database:
        assert await database.fetch(ONE, {}) == [(1,)]
        assert attempts(silent) == 1
        database._connections._expire()
        await asyncio.gather(*[database.fetch(ONE, {}) for _ in range(4)])
        assert attempts(silent) == 0


async def test_a_host_that_hangs_up_is_passed_by(live_postgres: PostgresServer) -> None:
    """A load balancer without live servers does this."""
    hung_up = 0

    def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal hung_up
        hung_up += 1
        writer.close()

    async with await asyncio.start_server(hang_up, HOST, 0) as listening:
        place = f"{HOST}:{listening.sockets[0].getsockname()[1]}"
        url = f"{live_postgres.url.replace('@', f'@{place},')}?sslmode=disable"
        async with asyncio.timeout(LONG), opened(url) as database:
            assert await database.fetch(ONE, {}) == [(1,)]
    assert hung_up == 1


async def test_a_silent_host_is_replaced_by_one_that_responds_later(
    silent: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_hosts, "HOST_DELAY", 0.05)
    logged_in: list[str] = []

    async def log_in(address: str) -> SimpleNamespace:
        logged_in.append(address)
        if len(logged_in) < 4:
            await asyncio.sleep(3600)
        return SimpleNamespace(terminate=lambda: None)

    hosts = Hosts("postgresql://a,b/db")
    async with asyncio.timeout(LONG):
        await hosts.connect(log_in)
    assert [address[13] for address in logged_in] == ["a", "b", "a", "b"]
    assert hosts.addresses == ["postgresql://b/db", "postgresql://a/db"]


async def test_a_caller_with_little_time_finds_the_next_host_the_next_time() -> None:
    asked: list[str] = []

    async def log_in(address: str) -> SimpleNamespace:
        asked.append(address)
        if address == "postgresql://a/db":
            await asyncio.sleep(3600)
        return SimpleNamespace(terminate=lambda: None)

    hosts = Hosts("postgresql://a,b/db")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await hosts.connect(log_in)
    async with asyncio.timeout(LONG):
        await hosts.connect(log_in)
    assert asked == ["postgresql://a/db", "postgresql://b/db"]


async def test_hosts_that_all_refuse_are_tried_once_and_the_reason_is_reported() -> None:
    asked: list[str] = []

    async def log_in(address: str) -> SimpleNamespace:
        asked.append(address)
        if address.startswith("postgresql://a"):
            raise asyncpg.TargetServerAttributeNotMatched("none")
        raise ConnectionRefusedError("refused")

    with pytest.raises(ConnectionRefusedError):
        await Hosts("postgresql://a,b/db").connect(log_in)
    assert asked == ["postgresql://a/db", "postgresql://b/db"]


async def test_an_error_that_no_other_host_can_fix_is_reported_at_once() -> None:
    async def log_in(address: str) -> SimpleNamespace:
        assert address == "postgresql://a/db"
        raise asyncpg.InvalidPasswordError("wrong")

    with pytest.raises(asyncpg.InvalidPasswordError):
        await Hosts("postgresql://a,b/db").connect(log_in)


async def test_the_slower_of_two_connections_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_hosts, "HOST_DELAY", 0.0)
    both, closed = asyncio.Barrier(2), list[str]()

    async def log_in(address: str) -> SimpleNamespace:
        await both.wait()
        return SimpleNamespace(address=address, terminate=lambda: closed.append(address))

    async with asyncio.timeout(LONG):
        connection = await Hosts("postgresql://a,b/db").connect(log_in)
    assert [*closed, connection.address] in (
        ["postgresql://a/db", "postgresql://b/db"],
        ["postgresql://b/db", "postgresql://a/db"],
    )


# A statement that waits for a silent server


@pytest.mark.parametrize("busy", ["statement", "transaction"])
async def test_7_a_frozen_server_is_left_for_another_host(
    mortal: MortalPostgres, live_postgres: PostgresServer, busy: str
) -> None:
    place = urlsplit(live_postgres.url).netloc.rpartition("@")[2]
    url = urlsplit(mortal.url)._replace(netloc=f"{urlsplit(mortal.url).netloc},{place}").geturl()

    async def wait_in_transaction(database: PostgresDatabase) -> None:
        async with database.transaction() as session:
            await session.fetch(ONE, {})
            mortal.freeze()
            await session.fetch(ONE, {})

    async with asyncio.timeout(LONG), opened(f"{url}?target_session_attrs=any", connections=2) as database:
        port = adhoc("SELECT inet_server_port()")
        [[first]] = await database.fetch(port, {})
        with pytest.raises(StoreUnavailableError):
            if busy == "transaction":
                await wait_in_transaction(database)
            else:
                mortal.freeze()
                await database.fetch(ONE, {})
        [[second]] = await database.fetch(port, {})
        assert second != first
        assert str(first) in mortal.url


async def test_a_slow_statement_on_a_responding_server_continues(
    live_postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_watch, "PATIENCE", 0.1)
    monkeypatch.setattr(postgres_watch, "CHECK_INTERVAL", 0.05)
    asked: list[bool] = []
    answers = Connections._answers

    async def counting(self: Connections, address: str) -> bool:
        asked.append(await answers(self, address))
        return asked[-1]

    monkeypatch.setattr(Connections, "_answers", counting)
    async with opened(live_postgres.url) as database:
        assert await database.fetch(adhoc("SELECT 1 FROM pg_sleep(1.5)"), {}) == [(1,)]
    assert asked
    assert all(asked)


async def test_a_server_that_answers_with_an_error_is_not_silent(live_postgres: PostgresServer) -> None:
    connections = Connections(live_postgres.url, pooler=False, most=1)

    assert await connections._answers(live_postgres.url)
    assert await connections._answers(live_postgres.at(database="missing"))
    assert not await connections._answers(f"postgresql://postgres@{HOST}:1/postgres")


async def test_a_silent_server_does_not_answer(
    silent: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_connections, "ANSWER_TIMEOUT", 0.1)
    address = f"postgresql://postgres@{silent.place}/postgres"

    assert not await Connections(address, pooler=False, most=1)._answers(address)


# A network that is silent


def options_of(loop_factory: Callable[[], asyncio.AbstractEventLoop] | None, url: str) -> dict[str, int]:
    async def read() -> dict[str, int]:
        connections = Connections(url, pooler=False, most=1)
        async with connections.borrowed() as connection:
            connected = connection._transport.get_extra_info("socket")
            names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
            found = {name: connected.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names}
            found["SO_KEEPALIVE"] = connected.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        await connections.close()
        return found

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(read())


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has all of these options")
@pytest.mark.parametrize("loop_factory", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_7_both_ends_notice_within_seconds_that_the_other_is_gone(
    live_postgres: PostgresServer, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None
) -> None:
    found = options_of(loop_factory, live_postgres.url)

    assert found.pop("SO_KEEPALIVE") == 1
    assert found == postgres_connections._SOCKET_OPTIONS
    assert found["TCP_KEEPIDLE"] + found["TCP_KEEPINTVL"] * found["TCP_KEEPCNT"] <= 15
    assert found["TCP_USER_TIMEOUT"] <= 15_000


async def test_the_server_gets_settings_to_notice_it_as_well(live_postgres: PostgresServer) -> None:
    async with opened(live_postgres.url) as database:
        [found] = await database.fetch(
            adhoc("SELECT current_setting('tcp_user_timeout'), current_setting('tcp_keepalives_idle')"), {}
        )
    assert tuple(found) == ("10000", "5")


# A pooler


async def test_7_the_refusal_of_a_pooler_says_what_to_do() -> None:
    def told(message: str) -> StoreError:
        failure = failure_of(asyncpg.ProtocolViolationError(message), "db")
        assert failure is not None
        return failure

    refused = told("unsupported startup parameter: default_transaction_isolation")
    assert "set pooler=True" in str(refused)
    assert not isinstance(refused, StoreUnavailableError)
    assert isinstance(told("query_wait_timeout"), StoreUnavailableError)
    assert "pooler" not in str(told("query_wait_timeout"))
