"""`redrive status`: one screen that says what needs somebody, and what to type next."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.cli.served import Served
from tests.cli.shop import Shop
from tests.cli.terminal import talk


def test_what_needs_somebody(anywhere: Command, shop: Shop) -> None:
    for number in range(3):
        shop.dead_letter(number)
    shop.dead_letter(9, card="slow")
    shop.order(10, wait=False)
    ended = anywhere("status", "-o", "table")
    assert (ended.code, ended.err) == (0, "")
    for text in (
        "Needs you             4  4 open; the oldest for ",
        "Heals itself          0  nothing\n",
        "In flight             0  no worker is at work\n",
        "Waiting               1  ready in 1 queue; the oldest for ",
        "Last 24h             in        4  ▁",
        "Top failures\n  3  the card of order <n> was declined\n     checkout › charge, ",
        "\nNext\n  redrive dlq groups fp:",
        "  redrive worker MODULE:APP ",
    ):
        assert text in ended.out


def test_what_is_broken_now(anywhere: Command, shop: Shop) -> None:
    shop.order()
    anywhere("breaker", "open", "gateway", "--reason", "the bank is down")
    shop.order(2)
    anywhere("queue", "pause", "default", "--reason", "slowly")
    shown = anywhere("status", "-o", "table").out
    assert "Needs you             0  nothing: no dead letter waits for somebody\n" in shown
    assert "Heals itself          1  1 held by breakers\n" in shown
    assert "\nNow\n  breaker   gateway  OPEN  1 waiting; by hand: the bank is down\n" in shown
    assert "  queue     default  PAUSED  by " in shown


def test_for_programs(anywhere: Command, shop: Shop) -> None:
    shop.dead_letter()
    found = json.loads(anywhere("status", "-o", "json").out)
    assert sorted(found) == ["breakers", "groups", "overview", "queues", "replays", "workers"]
    assert found["overview"]["needs_you"]["total"] == 1
    assert anywhere("status").out.startswith("needs_you\t1\nheals_itself\t0\n")
    [row] = csv.DictReader(io.StringIO(anywhere("status", "-o", "csv", "--span", "1h").out))
    assert (row["needs_you"], row["came"], row["workers"]) == ("1", "1", "0")


def test_a_replay_under_way_and_a_worker(redrive: Command, shop: Shop) -> None:
    shop.dead_letter()
    operation = json.loads(redrive("replay", "plan", "--query", "is:open", "-o", "json").out)["id"]
    redrive("replay", "start", operation, "--yes")
    shown = redrive("status", "-o", "table").out
    assert f"  replay    {operation[:12]}  RUNNING  0 of 1 begun\n" in shown
    redrive("replay", "pause", operation)
    assert f"redrive replay view {operation}" in redrive("status", "-o", "table").out


def test_nothing_at_all(redrive: Command) -> None:
    assert redrive("status").code == 3
    redrive("org", "list")
    ended = redrive("status", "-o", "table")
    assert (ended.code, ended.err) == (0, "")
    assert "Now" not in ended.out
    assert "Top failures" not in ended.out


def test_it_fits(redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.message = "a long story " * 30
    for number in range(2):
        shop.dead_letter(number, card="slow")
    redrive("breaker", "open", "gateway", "--reason", "a long story " * 20)
    redrive("queue", "pause", "default", "--reason", "a long story " * 20)
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = redrive("status", "-o", "table").out.splitlines()
        assert max(map(len, lines)) <= columns
        assert len(lines) <= 30


def test_colours_on_a_terminal_alone(
    redrive: Command, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.dead_letter()
    assert "\x1b[" in talk(tmp_path, ["status"], on_terminal=True).shown
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in talk(tmp_path, ["status"], on_terminal=True).shown
    assert redrive("status", "--watch").code == 2


def test_who_may(served: Served, redrive: Command, shop: Shop) -> None:
    shop.dead_letter()
    served.enter("VIEWER")
    assert redrive("status").code == 0
    served.enter(key="rdk_nonsense")
    assert redrive("status").code == 4
