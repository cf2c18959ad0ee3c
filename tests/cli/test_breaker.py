"""`redrive breaker`: failing dependencies, held work, and forcing a breaker (W16)."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.cli.served import Served
from tests.cli.shop import Shop
from tests.cli.terminal import talk


def breaker(redrive: Command, name: str = "gateway") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(redrive("breaker", "view", name, "-o", "json").out)
    return found


def test_opened_closed_and_left_to_itself(anywhere: Command, shop: Shop) -> None:
    shop.order()
    opened = anywhere("breaker", "open", "gateway", "--reason", "the bank is down", "--for", "10m")
    assert opened == (0, "", "Breaker 'gateway' is open for 10 min.\n")
    found = breaker(anywhere)
    assert (found["state"], found["force"]["reason"]) == ("OPEN", "the bank is down")

    shop.order(2)  # the breaker holds it
    view = anywhere("breaker", "view", "gateway", "-o", "table").out
    assert "1 run is on hold and resumes automatically when the breaker closes." in view
    assert ": the bank is down." in view
    assert ("opens when" in view) is ("REDRIVE_SERVER" in os.environ)  # only a server knows the application

    closing = ["breaker", "close", "gateway", "--reason", "it is back"]
    unasked = anywhere(*closing)
    assert (unasked.code, "--yes" in unasked.err) == (2, True)
    would = anywhere(*closing, "--dry-run")
    assert would.code == 0
    assert "and release 1 run; their failed attempts will count.\n" in would.err
    assert breaker(anywhere)["state"] == "OPEN"
    closed = anywhere(*closing, "-y")
    assert closed.err.startswith("Breaker 'gateway' is closed.\n")
    assert "redrive breaker auto gateway" in closed.err
    left = anywhere("breaker", "auto", "gateway")
    assert left == (0, "", "Returned breaker 'gateway' to automatic control. It is closed.\n")
    again = anywhere("breaker", "auto", "gateway")
    assert again == (0, "", "Breaker 'gateway' is already under automatic control.\n")
    actions = [row["action"] for row in json.loads(anywhere("audit", "list", "-o", "json").out)]
    assert actions.count("breaker.forced") == 2
    assert actions.count("breaker.released") == 1


def test_a_list_for_people_and_programs(
    redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.dead_letter(card="slow")
    redrive("breaker", "open", "gateway", "--reason", "a long story " * 20)
    heading, line = redrive("breaker", "list", "-o", "table").out.splitlines()
    assert heading.split()[:4] == ["NAME", "STATUS", "FAILING", "ON"]
    assert line.startswith("gateway  open")
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        for verb in (["list"], ["view", "gateway"]):
            assert max(map(len, redrive("breaker", *verb, "-o", "table").out.splitlines())) <= columns
    [row] = csv.DictReader(io.StringIO(redrive("breaker", "list", "-o", "csv").out))
    assert (row["name"], row["state"], row["forced"]) == ("gateway", "OPEN", "operator")
    [found] = json.loads(redrive("breaker", "list", "-o", "json").out)
    assert found["policy"]["successes_to_close"] == 3
    assert redrive("breaker", "list").out.split("\t")[:2] == ["gateway", "OPEN"]


def test_none_at_all(redrive: Command) -> None:
    redrive("migrate")
    assert redrive("breaker", "list", "-o", "json") == (0, "[]\n", "")
    ended = redrive("breaker", "view", "gateway")
    assert ended == (3, "", "Error: no breaker is named 'gateway'; none exist yet\n")


def test_who_may(served: Served, redrive: Command, shop: Shop) -> None:
    shop.order()
    served.enter("VIEWER")
    assert redrive("breaker", "list").code == 0
    ended = redrive("breaker", "open", "gateway", "--reason", "I should not")
    assert (ended.code, ended.out) == (5, "")
    assert breaker(redrive)["state"] == "CLOSED"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["view", "gatewai"], 3, "no breaker is named 'gatewai'; did you mean 'gateway'?"),
        (["open", "bank", "--reason", "x"], 3, "no breaker is named 'bank'; use one of: gateway"),
        (["open", "gateway"], 2, "Missing option '--reason'"),
        (["open", "gateway", "--reason", ""], 2, "Error: "),
        (
            ["open", "gateway", "--reason", "x", "--for", "0s"],
            2,
            "'0s' is out of range; use a duration from 1 s to",
        ),
        (["open", "gateway", "--reason", "x", "--for", "soon"], 2, "not a duration"),
        (["auto", "bank"], 3, "no breaker is named 'bank'"),
    ],
)
def test_mistakes(redrive: Command, shop: Shop, arguments: list[str], code: int, message: str) -> None:
    shop.order()
    ended = redrive("breaker", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert breaker(redrive)["force"] is None


def test_a_dry_run_changes_nothing(redrive: Command, shop: Shop) -> None:
    shop.order()
    ended = redrive("breaker", "open", "gateway", "--reason", "x", "--dry-run")
    text = "Would open breaker 'gateway' (it holds 0 runs now).\n"
    assert ended == (0, "", text)
    assert breaker(redrive)["force"] is None
    redrive("breaker", "close", "gateway", "--reason", "x")
    assert redrive("breaker", "auto", "gateway", "--dry-run").code == 0
    assert breaker(redrive)["force"] is not None


def test_closing_asks_where_work_waits(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    shop.order()
    redrive("breaker", "open", "gateway", "--reason", "the bank is down")
    for number in (2, 3):
        shop.order(number)
    closing = ["breaker", "close", "gateway", "--reason", "it is back"]
    declined = talk(tmp_path, closing, ("[y/N]:", "n"))
    assert declined.code == 8
    assert "and release 2 runs; their failed attempts will count?" in declined.shown
    assert breaker(redrive)["state"] == "OPEN"


def test_an_open_breaker_is_probed_first(redrive: Command, shop: Shop) -> None:
    """The output suggests to wait before it suggests to close it."""
    for number in range(8):
        shop.order(number, card="slow")
    assert (breaker(redrive)["state"], breaker(redrive)["force"]) == ("OPEN", None)
    shown = redrive("breaker", "view", "gateway", "-o", "table").out
    wait, close = (shown.index(f"redrive breaker {verb} gateway") for verb in ("view", "close"))
    assert wait < close
    assert "wait: the next probe is in " in shown


def test_16_p4_a_half_open_breaker_without_held_runs_is_tried_with_the_next_run(
    anywhere: Command, shop: Shop
) -> None:
    shop.order()
    anywhere("breaker", "open", "gateway", "--reason", "maintenance")
    assert anywhere("breaker", "auto", "gateway").err.endswith("It is tried with the next run.\n")
    view = anywhere("breaker", "view", "gateway", "-o", "table").out
    assert "The dependency is tried with the next run that needs it." in view
    assert "a probe is running" not in view
    assert "gateway" not in anywhere("status", "-o", "table").out
