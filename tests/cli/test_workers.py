"""`redrive workers`: live workers, their start and their work; silent ones are marked."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.cli.shop import SECONDS, Shop


def workers(redrive: Command, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(redrive("workers", "-o", "json", *arguments).out)
    return found


def at_work(redrive: Command) -> dict[str, Any]:
    """Wait for the first heartbeat, which follows the start a moment later."""
    late = time.monotonic() + SECONDS
    while not (found := workers(redrive)):
        assert time.monotonic() < late, "no worker has told of itself"
        time.sleep(0.05)
    return found[0]


def test_one_at_work(anywhere: Command, shop: Shop) -> None:
    shop.order(wait=False)
    assert workers(anywhere) == []
    with shop.working():
        row = at_work(anywhere)
        assert (row["state"], row["queues"]) == ("running", ["default"])
        assert anywhere("workers").out.split("\t")[:2] == [row["id"], "running"]
    assert workers(anywhere) == []
    [stopped] = workers(anywhere, "--all")
    assert (stopped["id"], stopped["state"]) == (row["id"], "stopped")


def test_a_silent_worker(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    with shop.working():
        at_work(redrive)
    with sqlite3.connect(tmp_path / "redrive.db") as connection:
        connection.execute("UPDATE workers SET state = 'running', seen_at = seen_at - 300")
    ended = redrive("workers", "-o", "table")
    assert ended.code == 0
    assert ended.out.splitlines()[1].split()[1:4] == ["silent", "5", "min"]
    assert ended.err == "1 worker stopped reporting without shutting down. Check its process and log.\n"


def test_a_worker_with_a_blocked_event_loop(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    with shop.working():
        at_work(redrive)
    step = {"run_id": "r7", "org": "default", "workflow": "w", "step": "wedge", "task": "w", "attempt": 1}
    with sqlite3.connect(tmp_path / "redrive.db") as connection:
        connection.execute(
            "UPDATE workers SET state = 'running', blocked_at = seen_at - 300, blocked_by = ?",
            (json.dumps(step),),
        )
    ended = redrive("workers", "-o", "table")
    assert ended.out.splitlines()[1].split()[1] == "blocked"
    assert "its event loop has not answered for 5 min; step 'wedge' of run r7 blocks it" in ended.err
    assert "blocked_workers\t1\n" in redrive("status").out
    status = redrive("status", "-o", "table")
    assert " blocked " in status.out
    assert "for 5 min by step wedge, run r7" in status.out


def test_a_table_and_csv(redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    with shop.working():
        row = at_work(redrive)
        for columns in (80, 120):
            monkeypatch.setenv("COLUMNS", str(columns))
            shown = redrive("workers", "-o", "table").out.splitlines()
            assert shown[0].split()[:2] == ["WORKER", "STATUS"]
            assert max(map(len, shown)) <= columns
        [told] = csv.DictReader(io.StringIO(redrive("workers", "-o", "csv").out))
        assert (told["id"], told["state"]) == (row["id"], "running")
