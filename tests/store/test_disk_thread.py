"""The thread of a SQLite connection."""

from __future__ import annotations

import asyncio
import gc
import threading
from functools import partial

import pytest

from redrive.store.disk_thread import DiskThread


async def test_calls_are_run_in_order_on_one_other_thread() -> None:
    thread = DiskThread()
    seen: list[tuple[int, int]] = []

    def note(number: int) -> int:
        seen.append((number, threading.get_ident()))
        return number

    assert await asyncio.gather(*(thread.submit(partial(note, number)) for number in range(5))) == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert [number for number, _ in seen] == [0, 1, 2, 3, 4]
    assert len({ident for _, ident in seen} - {threading.get_ident()}) == 1


async def test_an_exception_of_a_call_is_raised_where_it_is_awaited() -> None:
    thread = DiskThread()

    with pytest.raises(ZeroDivisionError):
        await thread.submit(lambda: 1 // 0)
    assert await thread.submit(lambda: "goes on") == "goes on"


async def test_a_cancelled_call_is_finished() -> None:
    thread, release, done = DiskThread(), threading.Event(), []

    def work() -> None:
        release.wait(30)
        done.append(True)

    future = thread.submit(work)
    future.cancel()
    release.set()
    await thread.finish()

    assert done == [True]


def test_a_closed_event_loop_does_not_end_the_thread() -> None:
    thread, release = DiskThread(), threading.Event()

    async def leave() -> None:
        thread.submit(lambda: release.wait(30))

    async def use() -> str:
        return await thread.submit(lambda: "still there")

    asyncio.run(leave())
    release.set()
    assert asyncio.run(use()) == "still there"


async def test_the_thread_ends_with_its_object() -> None:
    thread = DiskThread()
    running = await thread.submit(threading.current_thread)
    del thread
    gc.collect()

    running.join(30)
    assert not running.is_alive()
