"""The watch of the event loop, and the end of a process whose loop is blocked."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
from tests.engine.hand_clock import HandClock
from tests.engine.workbench import new_app

from redrive.engine import stop_watchdog
from redrive.engine.loop_watch import LoopWatch, Silence
from redrive.engine.stop_watchdog import StopWatchdog
from redrive.parts import parts_of
from redrive.store.database import Session


class Watched:
    """A watch of the running loop; the test acts as the thread that renews leases."""

    def __init__(self, lease_seconds: float) -> None:
        self.clock = HandClock()
        self.written: list[Silence] = []
        self.watch = LoopWatch(self.clock, lease_seconds, lambda carrier: None, self._write)
        self.watch.attach(asyncio.get_running_loop())

    async def _write(self, session: Session, silence: Silence) -> None:
        self.written.append(silence)

    def vouches_after(self, seconds: float) -> bool:
        """Check the watch every second, without an iteration of the loop."""
        for _ in range(int(seconds)):
            self.clock.time += 1.0
            vouches = self.watch.vouches()
        return vouches


async def test_leases_are_not_renewed_for_a_loop_that_is_silent_for_longer_than_a_lease() -> None:
    watched = Watched(20.0)
    assert watched.watch.vouches()
    assert watched.vouches_after(19.0)
    assert not watched.vouches_after(1.0)
    assert watched.watch.has_refused_since(20.0)
    await asyncio.sleep(0)
    assert watched.watch.vouches()
    assert watched.watch.silence() is None


async def test_a_short_lease_has_ten_seconds() -> None:
    watched = Watched(1.0)
    assert watched.watch.vouches()
    assert watched.vouches_after(9.0)
    assert not watched.vouches_after(1.0)


async def test_time_in_which_the_process_was_frozen_is_no_silence() -> None:
    watched = Watched(20.0)
    assert watched.watch.vouches()
    watched.clock.time += 3_600.0
    assert watched.watch.vouches()


async def test_a_silent_loop_is_reported_after_a_moment() -> None:
    watched = Watched(60.0)
    session = parts_of(new_app()).database
    assert watched.watch.vouches()
    watched.vouches_after(4.0)
    assert watched.watch.silence() is None
    watched.vouches_after(2.0)
    silence = watched.watch.silence()
    assert silence == Silence(6.0, None)
    await watched.watch.report(session)
    assert watched.written == [Silence(6.0, None)]


async def test_an_answer_is_awaited_until_it_comes() -> None:
    """A loop that has just been asked may be suspended, and so may the thread that asked."""
    watched = Watched(20.0)
    assert watched.watch.vouches()
    assert not watched.watch.awaits_answer
    watched.vouches_after(30.0)
    assert watched.watch.awaits_answer
    await asyncio.sleep(0)
    assert not watched.watch.awaits_answer
    assert watched.watch.vouches()
    assert not watched.watch.awaits_answer


async def test_a_blocked_loop_that_is_asked_to_stop_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[tuple[int, str]] = []
    monkeypatch.setattr(stop_watchdog, "end_process", lambda code, message: ended.append((code, message)))
    loop, heard = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, heard.set)
    try:
        with StopWatchdog(loop, 0.1, lambda: "it is blocked"):
            os.kill(os.getpid(), signal.SIGTERM)
            until = time.monotonic() + 20.0
            while not ended and time.monotonic() < until:
                time.sleep(0.05)
            assert [code for code, _ in ended] == [1]
            assert "it is blocked" in ended[0][1]
            await heard.wait()  # the loop gets the signal as well
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
