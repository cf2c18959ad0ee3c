"""Ctrl-C while a command waits for the API in its own process."""

from __future__ import annotations

import asyncio
import signal

import pytest

from redrive.cli.connection import interruptible


async def clumsy() -> None:
    """Turns its cancellation into another error, as some libraries do."""
    signal.raise_signal(signal.SIGINT)
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        raise RuntimeError("no response") from None


async def failing() -> None:
    raise RuntimeError("no response")


def test_an_interrupted_action_is_interrupted_whatever_it_raises() -> None:
    with asyncio.Runner() as runner, pytest.raises(KeyboardInterrupt):
        runner.run(interruptible(clumsy()))


def test_an_error_without_an_interruption_stays_that_error() -> None:
    with asyncio.Runner() as runner, pytest.raises(RuntimeError, match="no response"):
        runner.run(interruptible(failing()))
