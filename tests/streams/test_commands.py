"""`redrive stream consume` and `redrive worker --streams`: real processes, stopped by SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from tests.engine.workbench import PATIENCE
from tests.streams.conftest import Broker, until

PROGRAM = """
from redrive import Redrive
from redrive.events import Event

app = Redrive("sqlite:///work.db")
orders = app.stream("orders", "{url}")


@orders.projector("invoice")
async def invoice(event: Event) -> None:
    with open("done.txt", "a") as file:
        file.write(f"{{event.dedupe_key}}\\n")
"""


async def start(folder: Path, broker: Broker, *arguments: str) -> asyncio.subprocess.Process:
    (folder / "shop_of_streams.py").write_text(PROGRAM.format(url=broker.url))
    command = (sys.executable, "-m", "redrive.cli", *arguments)
    return await asyncio.create_subprocess_exec(*command, cwd=folder, stderr=asyncio.subprocess.PIPE)


async def stop(process: asyncio.subprocess.Process) -> str:
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(PATIENCE):
        _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return errors.decode()


async def test_a_worker_with_streams_reads_and_projects(tmp_path: Path, broker: Broker) -> None:
    process = await start(tmp_path, broker, "worker", "shop_of_streams:app", "--streams")
    await broker.add(1, 2)
    await until(lambda: _lines(tmp_path, 2))
    await stop(process)

    assert sorted(_done(tmp_path)) == ["order-1", "order-2"]
    assert await broker.pending() == 0


async def test_streams_are_consumed_without_a_worker(tmp_path: Path, broker: Broker) -> None:
    process = await start(tmp_path, broker, "stream", "consume", "shop_of_streams:app")
    await broker.add(1)
    await until(lambda: _is_read(broker))
    assert "Reading 1 stream." in await stop(process)

    assert _done(tmp_path) == []


@pytest.mark.parametrize(
    ("program", "name", "words"),
    [
        ("from redrive import Redrive\napp = Redrive('sqlite:///a.db')", (), "declares no stream"),
        (PROGRAM.format(url="redis://localhost:1"), ("--stream", "oders"), "did you mean 'orders'"),
    ],
)
async def test_a_wrong_call_says_what_is_wrong(
    tmp_path: Path, program: str, name: tuple[str, ...], words: str
) -> None:
    (tmp_path / "shop_of_streams.py").write_text(program)
    command = (sys.executable, "-m", "redrive.cli", "stream", "consume", "shop_of_streams:app", *name)
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(PATIENCE):
        _, errors = await process.communicate()

    assert words in errors.decode()
    assert process.returncode in (2, 3)


def _done(folder: Path) -> list[str]:
    file = folder / "done.txt"
    return file.read_text().splitlines() if file.exists() else []


async def _lines(folder: Path, number: int) -> bool:
    return len(_done(folder)) >= number


async def _is_read(broker: Broker) -> bool:
    groups = await broker.client.xinfo_groups("orders")
    return bool(groups) and groups[0]["last-delivered-id"] == b"1-0" and not groups[0]["pending"]
