"""`redrive doctor`: problems first, with their remedy; the exit code is for scripts."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.by_hand import by_hand
from tests.cli.conftest import Command
from tests.cli.shop import Shop
from tests.cli.terminal import talk
from tests.cli.test_worker import until

from redrive.app import Redrive

OF_THE_SERVER = {"fsync is off", "full_page_writes is off"}
"""Findings about the PostgreSQL server of the tests."""

WORKER = """
import time
from redrive import Redrive

app = Redrive()


@app.task
def endless() -> None:
    time.sleep(3600)


app.sync.start(endless)
app.sync.close()
app.run_worker(poll_seconds=0.05)
"""


def findings(ended: Any) -> list[dict[str, Any]]:
    return [each for each in json.loads(ended.out) if each["seen"] not in OF_THE_SERVER]


def test_all_is_well(office: Command) -> None:
    office("migrate")
    ended = office("doctor", "-o", "json")
    assert {each["state"] for each in findings(ended)} == {"note", "ok"}
    checks = {each["check"] for each in findings(ended)}
    assert {"program", "database", "schema", "queues", "leases", "breakers", "dead letters"} <= checks


def test_it_ends_with_0_where_all_is_well(redrive: Command) -> None:
    redrive("migrate")
    ended = redrive("doctor", "-o", "table")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("Database redrive.db\n\nNotes (1)\n  · encryption ")
    assert ended.out.endswith("\n0 problems, 0 warnings, 1 note, 17 OK\n")


def test_a_warning_is_bad_for_the_strict(redrive: Command, shop: Shop) -> None:
    shop.dead_letter()
    ended = redrive("doctor", "-o", "json")
    assert ended.code == 0
    assert [each["check"] for each in findings(ended)][:1] == ["dead letters"]
    assert redrive("doctor", "--strict").code == 7


def test_a_queue_without_a_worker(office: Command, shop: Shop) -> None:
    shop.order(wait=False)
    ended = office("doctor", "-o", "json")
    assert ended.code == 7
    [found] = [each for each in findings(ended) if each["state"] == "bad"]
    assert found["seen"].startswith("the queue default has 1 run ready (oldest: ")
    assert found["command"] == "redrive worker MODULE:ATTRIBUTE --queue default"


def test_programs_get_facts_and_people_texts(redrive: Command, shop: Shop) -> None:
    shop.order(wait=False)
    pause("mail")
    found = {each["code"]: each for each in findings(redrive("doctor", "-o", "json"))}
    waiting, paused = found["queue_without_worker"], found["queue_paused"]
    assert 0.0 <= waiting.pop("oldest_seconds") < 3600.0
    assert waiting.pop("seen").startswith("the queue default has 1 run ready (oldest: ")
    assert waiting == {
        "check": "queues",
        "code": "queue_without_worker",
        "state": "bad",
        "queue": "default",
        "runs": 1,
        "meaning": "These runs can't start.",
        "advice": "Start a worker that serves this queue.",
        "command": "redrive worker MODULE:ATTRIBUTE --queue default",
    }
    assert (paused["queue"], paused["by"], paused["reason"]) == ("mail", "ana", "the provider moves")
    assert redrive("doctor", "-o", "csv").out.startswith("state,check,code,seen,advice,command")


def test_a_worker_that_was_killed(office: Command, tmp_path: Path) -> None:
    """I6: `kill -9` while a step executes; then a minute passes."""
    office("migrate")
    process = subprocess.Popen([sys.executable, "-c", WORKER], cwd=tmp_path)
    try:
        leased = "SELECT 1 FROM redrive.runs, redrive.workers WHERE place = 'leased'"
        until(lambda: bool(by_hand(leased)))
    finally:
        process.kill()
        process.wait()
    by_hand("UPDATE redrive.runs SET leased_until = :now - 120")
    by_hand("UPDATE redrive.workers SET seen_at = :now - 180")
    ended = office("doctor", "-o", "json")
    assert ended.code == 7
    lease, worker = (each for each in findings(ended) if each["state"] not in ("note", "ok"))
    assert (lease["check"], lease["state"]) == ("leases", "bad")
    assert "expired 2 min ago, and no worker has taken it over" in lease["seen"]
    assert (worker["check"], worker["state"]) == ("workers", "warn")
    assert f"process {process.pid}) has not reported for 3 min" in worker["seen"]


def test_problems_come_first(redrive: Command, shop: Shop) -> None:
    shop.order(wait=False)
    pause("mail")
    table = redrive("doctor", "-o", "table").out
    assert table.index("Problems (1)") < table.index("Warnings (1)") < table.index("OK (")
    assert "  ✗ queues " in table
    assert "  ! queues " in table
    assert "→ Start a worker that serves this queue." in table
    assert "$ redrive queue resume mail\n" in table
    assert table.endswith("\n1 problem, 1 warning, 1 note, 16 OK\n")
    assert max(map(len, table.splitlines())) <= 80


def test_other_outputs(redrive: Command) -> None:
    redrive("migrate")
    pause("mail")
    plain = redrive("doctor", "-o", "plain").out.splitlines()
    assert plain[0].split("\t")[:2] == ["warn", "queues"]
    first, *_ = csv.DictReader(io.StringIO(redrive("doctor", "-o", "csv").out))
    assert (first["state"], first["command"]) == ("warn", "redrive queue resume mail")
    lines = redrive("doctor", "-o", "ndjson").out.splitlines()
    assert json.loads(lines[0])["meaning"] == "Its runs don't start until an operator resumes it."


def test_signs_that_steer_a_terminal_are_written_out(redrive: Command) -> None:
    redrive("migrate")
    by_hand("INSERT INTO redrive.queues VALUES ('mail', 1, 'ana', :reason)", reason="\x1b[31mred")
    for output in ("table", "plain", "csv", "json"):
        assert "\x1b" not in redrive("doctor", "-o", output).out


def test_a_database_that_is_not_there_is_not_made(redrive: Command, tmp_path: Path) -> None:
    ended = redrive("doctor")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("Error: there is no database redrive.db; ")
    assert not (tmp_path / "redrive.db").exists()


def test_a_database_that_is_away(redrive: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", "postgresql://app:canary-7@127.0.0.1:1/shop")
    ended = redrive("doctor")
    assert (ended.code, ended.out) == (1, "")
    assert "Check that it is running, that its address is right, and that this user has access" in ended.err
    assert "canary-7" not in ended.err


def test_tables_of_an_older_version(office: Command) -> None:
    office("migrate")
    by_hand("UPDATE redrive.migrations SET version = 13 WHERE version = 16")
    by_hand("DELETE FROM redrive.migrations WHERE version > 16")
    ended = office("doctor", "-o", "json")
    assert ended.code == 7
    [found] = [each for each in findings(ended) if each["state"] not in ("note", "ok")]
    assert (found["check"], found["command"]) == ("schema", "redrive migrate")


def test_a_key_that_is_missing(redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """I9: the output contains no key."""
    from redrive.settings import new_encryption_key

    key = new_encryption_key()
    monkeypatch.setenv("REDRIVE_ENCRYPTION_KEYS", key)
    shop.order(wait=False)
    assert "encryption" not in [each["check"] for each in findings(redrive("doctor", "-o", "json"))[:1]]
    monkeypatch.setenv("REDRIVE_ENCRYPTION_KEYS", new_encryption_key())
    ended = redrive("doctor", "-o", "json")
    [found] = [each for each in findings(ended) if each["check"] == "encryption"]
    assert found["state"] == "bad"
    assert key not in ended.out + ended.err


def test_on_a_terminal(redrive: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    redrive("migrate")
    colored = talk(tmp_path, ["doctor"], on_terminal=True)
    assert colored.code == 0
    assert "\x1b[32m✓\x1b[0m" in colored.shown
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in talk(tmp_path, ["doctor"], on_terminal=True).shown


def pause(queue: str) -> None:
    async def paused() -> None:
        async with Redrive(log=False, queues=[queue]) as app:
            await app.queues(by="ana").pause(queue, reason="the provider moves")

    asyncio.run(paused())
