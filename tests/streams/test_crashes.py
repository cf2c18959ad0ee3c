"""Consumers are killed at every point between read, decode, commit, acknowledgement and mirror (I12)."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest
from tests.engine.workbench import PATIENCE
from tests.events.conftest import Site
from tests.streams.conftest import KEY, Broker, Orders, until
from tests.streams.program import POINTS, crashing_orders
from tests.streams.test_consumer import _is_done
from tests.streams.test_invalid_entries import _end_leases
from tests.streams.test_order import _waits_no_more

from redrive.parts import parts_of

INVALID = (5, 17, 23)
NUMBERS = [number for number in range(1, 31) if number not in INVALID]


async def publish(broker: Broker) -> None:
    """Thirty entries, of which three are no events."""
    for number in range(1, 31):
        if number in INVALID:
            await broker.client.xadd(KEY, {"strange": str(number)}, id=f"{number}-0")
        else:
            await broker.add(number)


async def killed_at(site: Site, broker: Broker, point: str, times: int, ordered_by: str = "") -> None:
    """Run a consumer in a process of its own, which kills itself at the point."""
    arguments = (site.url, site.schema, broker.url, point, str(times), ordered_by)
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.streams.program", *arguments)
    async with asyncio.timeout(PATIENCE):
        assert await process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("ordered_by", ["", "user"])
@pytest.mark.parametrize("point", POINTS)
async def test_a_killed_consumer_loses_nothing_and_duplicates_nothing_i12(
    site: Site, broker: Broker, point: str, ordered_by: str
) -> None:
    orders = crashing_orders(site, broker.url).project(ordered_by=ordered_by or None)
    await orders.app.open()
    await publish(broker)
    await killed_at(site, broker, point, 1 if point in ("buried", "mirrored", "removed") else 2, ordered_by)

    async with orders.consuming(2):
        await until(lambda: _is_done(orders, broker, len(NUMBERS)))
        await until(lambda: _waits_no_more(orders))
        await _end_leases(orders)
        await until(lambda: _is_mirrored(orders, broker))

    assert await orders.stored() == NUMBERS
    seen = await orders.work_off()
    assert (seen if ordered_by else sorted(seen)) == NUMBERS
    letters = [letter.metadata["source_message_id"] for letter in await orders.letters()]
    assert sorted(letters) == sorted(f"{number}-0" for number in INVALID)
    mirrored = [fields["source_message_id"] for fields in await broker.mirrored()]
    assert sorted(mirrored) == sorted(letters)
    assert await broker.pending() == 0


async def _is_mirrored(orders: Orders, broker: Broker) -> bool:
    store = parts_of(orders.app).store
    return not await store.outbox.count("stream dead letters: orders", "default")
