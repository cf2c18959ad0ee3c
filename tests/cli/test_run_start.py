"""`redrive run start`: a run of the application that is named, or of the server's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command

WORK = """
from redrive import Redrive

app = Redrive(log=False)

@app.task
async def charge(order: int, country: str = "CH") -> str:
    return f"{order} {country}"

@app.task
async def greet(name: str) -> str:
    return name

if __name__ == "__main__":
    app.run_worker()
"""


@pytest.fixture
def work(redrive: Command, tmp_path: Path) -> str:
    """An application in the directory of the command."""
    (tmp_path / "work_of_test.py").write_text(WORK)
    return "work_of_test:app"


def test_a_run_is_stored_and_its_id_is_printed(redrive: Command, work: str) -> None:
    started = redrive("run", "start", "charge", '{"order": 7}', "--app", work, "--tag", "vip")
    assert (started.code, started.err) == (0, "Created database redrive.db.\n")
    run = json.loads(redrive("run", "view", started.out.strip(), "-o", "json").out)
    assert (run["input"], run["tags"]) == ({"order": 7}, ["vip"])
    assert (run["state"], run["status"], run["started_at"]) == ("PENDING", "queued", None)


def test_a_payload_that_is_not_json_is_text(redrive: Command, work: str) -> None:
    started = redrive("run", "start", "greet", "Ana Maria", "--app", work)
    assert json.loads(redrive("run", "view", started.out.strip(), "-o", "json").out)["input"] == "Ana Maria"
    broken = redrive("run", "start", "greet", '{"name": ', "--app", work)
    assert (broken.code, "PAYLOAD is not valid JSON" in broken.err) == (2, True)


def test_a_key_starts_one_run(redrive: Command, work: str) -> None:
    arguments = ("run", "start", "greet", "Ana", "--app", work, "--key", "hello-1")
    first, again = redrive(*arguments), redrive(*arguments)
    assert first.out == again.out
    assert "nothing was started" in again.err


def test_runs_with_an_order_key_wait_for_their_turn(redrive: Command, work: str) -> None:
    arguments = ("run", "start", "greet", "Ana", "--app", work, "--order-key", "customer-7")
    first = redrive(*arguments).out.strip()
    started = redrive(*arguments, "--after-failure", "proceed")
    assert started.code == 0, started.err
    second = started.out.strip()
    view = redrive("run", "view", second).out
    assert f"order key  customer-7: waits for run {first[:15]}, 1 before it" in " ".join(view.split("\n"))
    assert "customer-7: 1 run waits behind it" in redrive("run", "view", first).out
    assert second in redrive("run", "list", "is:parked", "-o", "json").out


def test_what_is_wrong_is_said_before_anything_is_started(redrive: Command, work: str) -> None:
    redrive("migrate")
    for arguments, code, text in (
        (("greet", "Ana"), 2, "pass it, such as --app shop.work:app"),
        (("great", "Ana", "--app", work), 2, "did you mean 'greet'?"),
        (("charge", '{"order": "x"}', "--app", work), 2, "Expected `int`, got `str`"),
        (("greet", "Ana", "--app", "nowhere:app"), 2, "no module 'nowhere'"),
        (("greet", "Ana", "--app", work, "--server", "http://127.0.0.1:1"), 2, "only works with a database"),
    ):
        ended = redrive("run", "start", *arguments)
        assert ended.out == ""
        assert (text in ended.err, ended.code) == (True, code), ended.err
    would = redrive("run", "start", "greet", "Ana", "--app", work, "--dry-run")
    assert (would.code, would.out) == (0, "")
    assert would.err.startswith("Would start a run of greet (")
    assert redrive("run", "list").out == ""
