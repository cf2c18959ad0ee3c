"""`redrive audit`: what was done, by whom, and whether the record is complete (I14, W16)."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from pathlib import Path

import pytest
from tests.cli.conftest import Command
from tests.cli.served import Served
from tests.cli.shop import Shop


def actions(redrive: Command, *arguments: str) -> list[str]:
    ended = redrive("audit", "list", "-o", "json", *arguments)
    assert ended.code == 0, ended.err
    return [row["action"] for row in json.loads(ended.out)]


def test_a_list_and_its_filters(anywhere: Command, shop: Shop) -> None:
    shop.order(wait=False)
    anywhere("queue", "pause", "default", "--reason", "the bank is down")
    anywhere("queue", "resume", "default")
    rows = json.loads(anywhere("audit", "list", "-o", "json", "--subject", "default").out)
    assert [row["action"] for row in rows] == ["queue.resumed", "queue.paused"]
    assert rows[1]["detail"]["reason"] == "the bank is down"
    assert actions(anywhere, "--action", "queue.paused") == ["queue.paused"]
    assert actions(anywhere, "--actor", rows[0]["actor"], "--limit", "1") == ["queue.resumed"]
    assert actions(anywhere, "--actor", "nobody") == []
    assert "queue.paused" in actions(anywhere, "--since", "1h")
    assert actions(anywhere, "--until", "1h") == []
    assert actions(anywhere, "--since", "2020-01-31", "--until", "2020-02-01T00:00:00Z") == []


def test_a_long_list_says_that_there_is_more(redrive: Command, shop: Shop) -> None:
    shop.order(wait=False)
    for verb in ("pause", "resume"):
        redrive("queue", verb, "default")
    listed = redrive("audit", "list", "--limit", "1", "-o", "json")
    assert len(json.loads(listed.out)) == 1
    assert listed.err == "Showing the newest 1. Use --limit N or --all for more.\n"
    assert redrive("audit", "list", "--limit", "2", "-o", "json").err == ""


def test_a_table_and_csv(redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.order(wait=False)
    redrive("queue", "pause", "default", "--reason", "a long story " * 20)
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        shown = redrive("audit", "list", "-o", "table").out.splitlines()
        assert shown[0].split()[:4] == ["#", "AT", "ACTOR", "WHAT"]
        assert " Paused a queue " in shown[1]
        assert max(map(len, shown)) <= columns
    [row] = csv.DictReader(io.StringIO(redrive("audit", "list", "-o", "csv").out))
    assert (row["actor"], row["action"], row["subjects"]) == ("operator", "queue.paused", "default")


def test_a_bulk_replay_is_one_line_of_a_table(
    redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        shop.dead_letter(number)
    shop.mended = True
    operation = json.loads(redrive("replay", "plan", "--query", "is:open", "-o", "json").out)
    assert redrive("replay", "start", operation["id"], "--yes").code == 0
    with shop.working():
        assert redrive("replay", "watch", operation["id"]).code == 0
    monkeypatch.setenv("COLUMNS", "160")
    lines = redrive("audit", "list", "-o", "table").out.splitlines()
    [bulk] = [line for line in lines if "Bulk replay" in line]
    assert "Bulk replay: 3 replayed, 3 succeeded" in bulk
    assert len([line for line in lines if "dead letter" in line]) == 3
    assert "replay.requested" in actions(redrive)
    listed = redrive("audit", "list", "-o", "table", "--limit", "2")
    assert len(listed.out.splitlines()) == 3
    assert "Showing the newest 2." in listed.err


def test_a_chain_that_is_whole(anywhere: Command, shop: Shop) -> None:
    shop.dead_letter()
    ended = anywhere("audit", "verify", "-o", "json")
    found = json.loads(ended.out)
    assert (ended.code, found["sound"], found["found"]) == (0, True, 0)
    assert anywhere("audit", "verify", "--head", found["head"]["text"]).code == 0
    assert anywhere("audit", "verify", "-o", "table").out.startswith("The audit log is intact.\n")
    assert anywhere("audit", "verify", "--head", "nonsense").code == 2


def test_a_chain_that_was_changed(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    """A person with access to the database changes the name of the actor."""
    shop.dead_letter()
    with sqlite3.connect(tmp_path / "redrive.db") as connection:
        connection.execute("UPDATE audit SET actor = 'somebody else'")
    ended = redrive("audit", "verify", "-o", "table")
    assert ended.code == 7
    assert ended.out.startswith("The audit log is broken.\n  #1  ")
    assert redrive("audit", "verify").out.startswith("sound\tno\n")


def test_who_may(served: Served, redrive: Command, shop: Shop) -> None:
    shop.dead_letter()
    served.enter("VIEWER")
    assert actions(redrive) != []
    served.enter(key="rdk_nonsense")
    ended = redrive("audit", "list")
    assert (ended.code, ended.out) == (4, "")
    assert "REDRIVE_API_KEY" in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list", "--action", "queue.paint"], "Invalid value for '--action'"),
        (["list", "--since", "yesterday"], "Error: "),
        (["list", "--since", "2000-01-01"], "days apart"),
    ],
)
def test_mistakes(redrive: Command, shop: Shop, arguments: list[str], message: str) -> None:
    shop.order()
    ended = redrive("audit", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert "Traceback" not in ended.err
