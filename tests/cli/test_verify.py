"""`redrive verify`: the checker on a user's own database; it prints violations and what to do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.cli.by_hand import by_hand
from tests.cli.conftest import Command
from tests.cli.terminal import talk
from tests.verify.history import History

from redrive.app import Redrive
from redrive.settings import Settings

PROMISES = ["I3", "I4", "I5", "I6", "I7", "I8", "I10", "I14", "I15", "I16"]


@pytest.fixture
def history(office: Command) -> dict[str, str]:
    """Create runs with every ending and in every place, and return their ids."""

    async def made() -> dict[str, str]:
        async with Redrive(settings=Settings.load(), log=False, durable=False) as app:
            history = History(app)
            await history.make()
            return history.runs

    return asyncio.run(made())


def test_a_healthy_history(office: Command, history: dict[str, str]) -> None:
    ended = office("verify", "-o", "json")
    assert ended.code == 0
    rows = json.loads(ended.out)
    assert [row["promise"] for row in rows] == PROMISES
    assert all(row["checked"] and not row["found"] and row["complete"] for row in rows)
    assert office("verify").err == "\nAll promises are kept.\n"


def test_a_history_that_was_tampered_with(office: Command, history: dict[str, str]) -> None:
    """I4, I7, I10 and I14, each violated by a direct change."""
    by_hand("UPDATE redrive.runs SET epoch = 3 WHERE id = :id", id=history["workflow"])
    by_hand("UPDATE redrive.dead_letters SET attempts = 9 WHERE run_id = :id", id=history["dead"])
    by_hand("UPDATE redrive.runs SET result = NULL WHERE id = :id", id=history["single"])
    by_hand("DELETE FROM redrive.audit WHERE sequence = 1")
    ended = office("verify", "-o", "json")
    assert ended.code == 7
    broken = {row["promise"]: row for row in json.loads(ended.out) if row["found"]}
    assert list(broken) == ["I4", "I7", "I10", "I14"]
    [finding] = broken["I7"]["findings"]
    assert "has 9 attempts and 3 failures" in finding.pop("text")
    assert finding.pop("dead_letter_id")
    assert finding == {
        "invariant": "I7",
        "subject": history["dead"],
        "code": "letter_different",
        "dead_letter_attempts": 9,
        "attempts": 3,
        "dead_letter_failures": 3,
        "failures": 3,
    }
    [fault] = [found for found in broken["I14"]["findings"] if found["code"] == "audit_entries_missing"]
    assert (fault["first"], fault["last"], fault["text"]) == (1, 1, "Entry 1 is missing.")
    assert all(row["advice"] for row in broken.values())

    table = office("verify", "-o", "table")
    assert table.code == 7
    assert "I7: failed runs and dead letters match  (broken)" in table.out
    assert f"  ✗ {history['dead']}: Its dead letter" in table.out
    assert table.out.endswith("\nBroken promises: I4, I7, I10, I14.\n")

    plain = office("verify")
    assert plain.out.splitlines()[0].split("\t")[0] == "I3"
    assert plain.err.endswith("\nBroken promises: I4, I7, I10, I14.\n")
    assert office("verify", "-o", "csv").out.startswith("promise,meaning,checked,found\n")


def test_unfinished_work(office: Command, history: dict[str, str]) -> None:
    """I6."""
    ended = office("verify", "--settled", "--most", "2", "-o", "ndjson")
    assert ended.code == 7
    [stuck] = [row for row in map(json.loads, ended.out.splitlines()) if row["found"]]
    assert (stuck["promise"], stuck["found"], stuck["complete"], len(stuck["findings"])) == (
        "I6",
        3,
        False,
        2,
    )


def test_how_long_something_may_be_overdue(office: Command, history: dict[str, str]) -> None:
    """I6."""
    by_hand("UPDATE redrive.runs SET leased_until = :now - 90 WHERE id = :id", id=history["leased"])
    assert office("verify").code == 7
    assert office("verify", "--leeway", "10m").code == 0


def test_how_far_clocks_may_differ(office: Command, history: dict[str, str]) -> None:
    """I5."""
    by_hand("UPDATE redrive.runs SET attempt_started_at = ended_at - 1 WHERE id = :id", id=history["flaky"])
    assert office("verify").code == 7
    assert office("verify", "--tolerance", "5").code == 0


def test_a_database_that_is_not_there_is_not_made(redrive: Command, tmp_path: Path) -> None:
    ended = redrive("verify")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("Error: there is no database redrive.db; ")
    assert not (tmp_path / "redrive.db").exists()


def test_a_database_that_is_away(redrive: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", "postgresql://app:canary-7@127.0.0.1:1/shop")
    ended = redrive("verify")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("Error: cannot use the database 127.0.0.1:1/shop: ")
    assert "canary-7" not in ended.err


@pytest.mark.parametrize(
    "arguments", [["--most", "0"], ["--leeway", "soon"], ["--tolerance", "-1"], ["--tolerance", "x"]]
)
def test_mistakes(redrive: Command, arguments: list[str]) -> None:
    ended = redrive("verify", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "Traceback" not in ended.err


def test_a_terminal_shows_the_current_check(redrive: Command, tmp_path: Path) -> None:
    redrive("migrate")
    ended = talk(tmp_path, ["verify", "-o", "json"])
    assert (ended.code, len(json.loads(ended.out))) == (0, len(PROMISES))
    assert "Checking I" in ended.shown
    assert ended.shown.endswith("\x1b[2K")  # the terminal erases the progress line
