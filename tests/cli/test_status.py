"""`redrive status`: one screen with what needs you, and the next command."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from tests.cli.by_hand import by_hand
from tests.cli.conftest import Command
from tests.cli.served import Served
from tests.cli.shop import Shop
from tests.cli.terminal import talk

from redrive.cli.status import percent
from redrive.parts import parts_of


def squeezed(text: str) -> str:
    """Collapse the blanks between columns."""
    return re.sub(r"(?<=\S) +", " ", text)


def test_the_screen_shows_what_needs_you(anywhere: Command, shop: Shop) -> None:
    for number in range(3):
        shop.dead_letter(number)
    shop.dead_letter(9, card="slow")
    shop.order(10, wait=False)
    ended = anywhere("status", "-o", "table")
    assert (ended.code, ended.err) == (0, "")
    for text in (
        "Needs you             4  4 open; oldest ",
        "Heals itself          0  nothing\n",
        "Running               0  no worker is running\n",
        "\nNow\n  worker    none  missing  1 run needs one: redrive worker MODULE:ATTRIBUTE\n",
        "Queued                1  in 1 queue; oldest ",
        "Dead letters        new        4  ▁",
        "last 24h         closed        0  ▁",
        "Top failures\n  3  the card of order 2 was declined\n     checkout › charge, ",
        "\nNext\n  redrive worker MODULE:ATTRIBUTE ",
        "\n  redrive dlq groups ",
    ):
        assert text in ended.out


def test_the_screen_shows_current_problems(anywhere: Command, shop: Shop) -> None:
    shop.order()
    anywhere("breaker", "open", "gateway", "--reason", "the bank is down")
    shop.order(2)
    anywhere("queue", "pause", "default", "--reason", "slowly")
    shown = anywhere("status", "-o", "table").out
    assert "Needs you             0  no open dead letters\n" in shown
    assert "Heals itself          1  1 on hold for a breaker\n" in shown
    assert "\n  breaker gateway open 1 on hold; forced by hand: the bank is down\n" in squeezed(shown)
    assert "\n  queue default paused by " in squeezed(shown)


def test_work_that_no_worker_knows(anywhere: Command, shop: Shop) -> None:
    run = shop.order(1, wait=False)
    shop._done(lambda app: parts_of(app).store.limits.hold("default", "checkout", "workflow:checkout", 9))
    shown = squeezed(anywhere("status", "-o", "table").out)
    assert "Needs you 1 1 run that no worker knows\n" in shown
    assert "\n  workflow checkout unknown 1 run: no worker knows it\n" in shown
    assert anywhere("status").out.startswith("needs_you\t1\n")
    listed = squeezed(anywhere("run", "list", "-o", "table").out)
    assert "unknown task" in listed
    viewed = squeezed(anywhere("run", "view", run, "-o", "table").out)
    assert "no worker knows the workflow 'checkout'" in viewed


def test_for_programs(anywhere: Command, shop: Shop) -> None:
    shop.dead_letter()
    found = json.loads(anywhere("status", "-o", "json").out)
    assert sorted(found) == ["abandoned", "breakers", "groups", "overview", "queues", "replays", "workers"]
    assert found["overview"]["needs_you"]["total"] == 1
    assert anywhere("status").out.startswith("needs_you\t1\nheals_itself\t0\n")
    [row] = csv.DictReader(io.StringIO(anywhere("status", "-o", "csv", "--span", "1h").out))
    assert (row["needs_you"], row["new_dead_letters"], row["workers"]) == ("1", "1", "0")


def test_a_replay_in_progress_and_a_worker(redrive: Command, shop: Shop) -> None:
    shop.dead_letter()
    operation = json.loads(redrive("replay", "plan", "--query", "is:open", "-o", "json").out)["id"]
    redrive("replay", "start", operation, "--yes")
    shown = redrive("status", "-o", "table").out
    assert f"  replay    {operation[:12]}  running  0 of 1 started\n" in shown
    redrive("replay", "pause", operation)
    assert f"redrive replay view {operation}" in redrive("status", "-o", "table").out


def test_an_empty_installation(redrive: Command) -> None:
    assert redrive("status").code == 3
    redrive("migrate")
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


def test_colors_on_a_terminal_alone(
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


def test_leases_of_workers_that_are_gone(anywhere: Command, shop: Shop) -> None:
    """The number in flight comes from the database, not from a worker's last report."""
    taken, _ = shop.order(1, wait=False), shop.order(2, wait=False)
    by_hand(
        "UPDATE redrive.runs SET place = 'leased', state = 'RUNNING', worker = 'gone', "
        "leased_until = :now - 5 WHERE id = :id",
        id=taken,
    )
    shown = anywhere("status", "-o", "table").out
    assert "Running               1  no worker is running\n" in shown
    assert "  worker none missing 2 runs need one: redrive worker MODULE:ATTRIBUTE\n" in squeezed(shown)
    assert "  lease 1 run expired worker is gone; another worker takes it over\n" in squeezed(shown)
    found = json.loads(anywhere("status", "-o", "json").out)
    assert found["abandoned"] == [taken]
    assert "in_flight\t1\n" in anywhere("status").out


def test_a_queue_that_no_worker_serves(redrive: Command, shop: Shop) -> None:
    with shop.working():
        pass
    shop.order(wait=False)
    by_hand("UPDATE redrive.workers SET state = 'running', queues = '[\"mail\"]'")
    shown = redrive("status", "-o", "table").out
    assert "  queue     default  unserved  1 ready: redrive worker MODULE:ATTRIBUTE\n" in shown
    assert "\nNext\n  redrive worker MODULE:ATTRIBUTE --queue default " in shown
    assert "missing" not in shown
    redrive("queue", "pause", "default")
    assert "unserved" not in redrive("status", "-o", "table").out


@pytest.mark.parametrize(
    ("part", "whole", "told"),
    [(1137, 1142, "99.6%"), (99_999, 100_000, "99.9%"), (7, 7, "100%"), (0, 7, "0.0%")],
)
def test_only_all_of_them_are_a_hundred_percent(part: int, whole: int, told: str) -> None:
    assert percent(part, whole) == told
