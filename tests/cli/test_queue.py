"""`redrive queue`: the depth of queues, and pausing them."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.cli.served import Served
from tests.cli.shop import Shop


def queue(redrive: Command) -> dict[str, Any]:
    [found] = json.loads(redrive("queue", "list", "-o", "json").out)
    assert found["name"] == "default"
    return dict(found)


def test_paused_and_resumed(anywhere: Command, shop: Shop) -> None:
    shop.order(wait=False)
    paused = anywhere("queue", "pause", "default", "--reason", "the bank is down")
    assert paused.err == "Paused queue 'default'. Resume it with `redrive queue resume default`.\n"
    found = queue(anywhere)
    assert (found["paused"], found["reason"], found["own"]["ready"]["number"]) == (
        True,
        "the bank is down",
        1,
    )
    assert shop.work() == 0
    again = anywhere("queue", "pause", "default")
    assert (again.code, "is already paused by" in again.err) == (0, True)

    assert anywhere("queue", "resume", "default") == (0, "", "Resumed queue 'default'.\n")
    assert shop.work() == 3
    assert anywhere("queue", "resume", "default") == (0, "", "Queue 'default' is not paused.\n")


def test_a_list_for_people_and_programs(
    redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.order(wait=False)
    redrive("queue", "pause", "default", "--reason", "a long story " * 20)
    heading, line = redrive("queue", "list", "-o", "table").out.splitlines()
    assert heading.split()[:3] == ["NAME", "STATE", "QUEUED"]
    assert line.split()[:3] == ["default", "paused", "1"]
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert max(map(len, redrive("queue", "list", "-o", "table").out.splitlines())) <= columns
    [row] = csv.DictReader(io.StringIO(redrive("queue", "list", "-o", "csv").out))
    assert (row["name"], row["paused"], row["ready"], row["held"]) == ("default", "yes", "1", "0")


def test_who_may(served: Served, redrive: Command, shop: Shop) -> None:
    shop.order(wait=False)
    served.enter("VIEWER")
    assert redrive("queue", "list").code == 0
    assert redrive("queue", "pause", "default").code == 5
    assert not queue(redrive)["paused"]


def test_a_queue_that_is_not_there(redrive: Command, shop: Shop) -> None:
    shop.order(wait=False)
    for verb in ("pause", "resume"):
        ended = redrive("queue", verb, "defualt")
        assert ended == (3, "", "Error: no queue is named 'defualt'; did you mean 'default'?\n")


def test_a_dry_run_changes_nothing(redrive: Command, shop: Shop) -> None:
    shop.order(wait=False)
    ended = redrive("queue", "pause", "default", "--dry-run")
    assert ended == (0, "", "Would pause queue 'default' (1 ready run).\n")
    assert not queue(redrive)["paused"]
    redrive("queue", "pause", "default")
    assert redrive("queue", "resume", "default", "--dry-run").code == 0
    assert queue(redrive)["paused"]
