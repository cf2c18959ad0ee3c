"""`redrive dlq resolve|ignore|archive|reopen`, tags and notes, and changes of groups."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.cli.shop import Shop
from tests.cli.terminal import talk

VERBS = {"resolve": "RESOLVED", "ignore": "IGNORED", "archive": "ARCHIVED"}


def states(command: Command) -> list[str]:
    """Return the states, the oldest letter first."""
    return [row["state"] for row in rows(command, "list", "is:any", "--oldest")]


def rows(command: Command, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(command("dlq", *arguments, "-o", "json").out)
    return found


@pytest.mark.parametrize(("verb", "state"), VERBS.items())
def test_one_there_and_back(anywhere: Command, shop: Shop, verb: str, state: str) -> None:
    letter = shop.dead_letter(1)
    would = anywhere("dlq", verb, letter, "--dry-run")
    assert (would.code, would.out) == (0, "")
    assert would.err.startswith(f"Would {verb} dead letter {letter} (charge, open) (")
    assert anywhere("dlq", verb, letter).code == 2  # no terminal to ask
    assert states(anywhere) == ["OPEN"]
    done = anywhere("dlq", verb, letter, "--yes", "--reason", "why not")
    assert done == (0, "", f"{state.capitalize()} dead letter {letter}.\n")
    assert states(anywhere) == [state]
    assert anywhere("dlq", verb, letter, "--yes").code == 6
    assert anywhere("dlq", "reopen", letter, "--yes").code == 0
    assert states(anywhere) == ["OPEN"]


def test_several_all_or_none(anywhere: Command, shop: Shop) -> None:
    first, second = shop.dead_letter(1), shop.dead_letter(2)
    for mode in ("--yes", "--dry-run"):
        refused = anywhere("dlq", "resolve", first, second, "nothing", mode, "--reason", "it")
        assert (refused.code, refused.out) == (3, "")
        assert "no dead letter has the id 'nothing': pass the 32 digits of an id" in refused.err
        assert refused.err.endswith(". Put quotes around a --reason of several words\n")
        assert anywhere("dlq", "reopen", first, "0" * 32, mode).code == 3
    assert anywhere("dlq", "resolve", first, second, "--dry-run").code == 0
    assert states(anywhere) == ["OPEN", "OPEN"]
    done = anywhere("dlq", "resolve", first, second, first, "--yes")
    assert (done.code, done.err) == (0, "Resolved 2 dead letters.\n")
    assert states(anywhere) == ["RESOLVED", "RESOLVED"]


def test_by_query(anywhere: Command, shop: Shop) -> None:
    """The ids go to stdout, so the operator can undo exactly this change."""
    shop.dead_letter(1)
    slow = [shop.dead_letter(number, card="slow") for number in (2, 3)]
    query = "is:open category:timeout"
    assert anywhere("dlq", "ignore", "--query", query, "--expect", "3", "--yes").code == 6
    assert anywhere("dlq", "ignore", "--query", query, "--max", "1", "--yes").code == 6
    would = anywhere("dlq", "ignore", "--query", query, "--dry-run")
    assert would.err.startswith(f"Would ignore 2 dead letters that match {query!r} (")
    assert states(anywhere) == ["OPEN"] * 3
    done = anywhere("dlq", "ignore", "--query", query, "--expect", "2", "--max", "2", "--yes")
    assert (done.code, sorted(done.out.split())) == (0, sorted(slow))
    assert "Ignored 2 dead letters." in done.err
    assert "`redrive dlq reopen`" in done.err
    assert states(anywhere) == ["OPEN", "IGNORED", "IGNORED"]
    none = anywhere("dlq", "ignore", "--query", query, "--yes")
    assert (none.code, none.out) == (0, "")
    assert "No dead letters match" in none.err


def test_undone_by_ids_of_the_standard_input(
    redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        shop.dead_letter(number)
    closed = redrive("dlq", "archive", "--query", "is:open", "--yes").out
    monkeypatch.setattr(sys, "stdin", io.StringIO(closed))
    undone = redrive("dlq", "reopen", "-", "--yes")
    assert (undone.code, undone.err) == (0, "Reopened 3 dead letters.\n")
    assert states(redrive) == ["OPEN"] * 3
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert redrive("dlq", "reopen", "-", "--yes").code == 2


def test_reopened_by_query(anywhere: Command, shop: Shop) -> None:
    for number in range(3):
        shop.dead_letter(number)
    assert anywhere("dlq", "archive", "--query", "is:open", "--yes").code == 0
    assert anywhere("dlq", "reopen", "--query", "is:archived", "--expect", "2", "--yes").code == 6
    undone = anywhere("dlq", "reopen", "--query", "is:archived", "--yes")
    assert (undone.code, undone.err) == (0, "Reopened 3 dead letters.\n")
    assert states(anywhere) == ["OPEN"] * 3


@pytest.mark.parametrize(
    "arguments",
    [[], ["one", "--query", "is:open"], ["one", "--expect", "1"], ["--query", "is:open", "--expect", "-1"]],
)
def test_an_ambiguous_selection_is_rejected(redrive: Command, shop: Shop, arguments: list[str]) -> None:
    shop.dead_letter(1)
    assert redrive("dlq", "resolve", *arguments, "--yes").code == 2
    assert states(redrive) == ["OPEN"]


def test_the_question_names_the_number_and_the_place(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    for number in range(3):
        shop.dead_letter(number)
    query = ["dlq", "resolve", "--query", "is:open"]
    asked = "Resolve 3 dead letters that match 'is:open'? (database redrive.db)"
    declined = talk(tmp_path, query, ("[y/N]:", "n"))
    assert (declined.code, declined.out) == (8, "")
    assert asked in declined.shown
    assert states(redrive) == ["OPEN"] * 3
    agreed = talk(tmp_path, query, ("[y/N]:", "y"))
    assert (agreed.code, len(agreed.out.split())) == (0, 3)
    assert states(redrive) == ["RESOLVED"] * 3


def test_marks(anywhere: Command, shop: Shop) -> None:
    first, second = shop.dead_letter(1), shop.dead_letter(2)
    assert anywhere("dlq", "assign", first, second, "--to", "ada", "--dry-run").code == 0
    assert [row["assignee"] for row in rows(anywhere, "list")] == [None, None]
    assert anywhere("dlq", "assign", first, second, "--to", "ada").code == 0
    assert anywhere("dlq", "assign", second, "--clear").code == 0
    assert [row["assignee"] for row in rows(anywhere, "list")] == [None, "ada"]
    assert anywhere("dlq", "assign", first).code == 2
    assert anywhere("dlq", "tag", first, "--add", "bank", "--add", "vip", "--dry-run").code == 0
    assert anywhere("dlq", "tag", first, "--add", "bank", "--add", "vip").code == 0
    assert anywhere("dlq", "tag", first, "--remove", "vip").code == 0
    assert [row["tags"] for row in rows(anywhere, "list")] == [[], ["bank"]]
    assert anywhere("dlq", "tag", first).code == 2
    assert anywhere("dlq", "note", first, "asked the bank", "--dry-run").code == 0
    assert anywhere("dlq", "note", first, "asked the bank").code == 0
    notes = json.loads(anywhere("dlq", "view", first, "-o", "json").out)["notes"]
    assert [note["text"] for note in notes] == ["asked the bank"]
    assert anywhere("dlq", "note", "nothing", "x").code == 3


def test_changing_the_state_of_a_group(anywhere: Command, shop: Shop) -> None:
    for number in range(2):
        shop.dead_letter(number)
    [group] = rows(anywhere, "groups")
    name = group["fingerprint"].partition(":")[2][:12]

    def said(*arguments: str) -> str:
        ended = anywhere("dlq", "group", *arguments)
        assert ended.code == 0, ended.err
        state: str = rows(anywhere, "groups")[0]["state"]
        return state

    assert said("acknowledge", name, "--dry-run") == "OPEN"
    assert said("acknowledge", name, "--reason", "I look") == "ACKNOWLEDGED"
    assert said("ignore", name, "--for", "7d", "--beyond", "100") == "IGNORED"
    assert rows(anywhere, "groups")[0]["ignored_beyond"] == 102
    assert said("reopen", f"fp:{name}") == "OPEN"
    assert said("resolve", name) == "RESOLVED"
    assert states(anywhere) == ["OPEN", "OPEN"]
    assert said("reopen", name) == "OPEN"
    assert anywhere("dlq", "group", "acknowledge", "abcdef123").code == 3


def test_a_group_is_resolved_with_its_dead_letters(anywhere: Command, shop: Shop) -> None:
    for number in range(2):
        shop.dead_letter(number)
    name = rows(anywhere, "groups")[0]["fingerprint"]
    assert anywhere("dlq", "group", "resolve", name, "--expect", "2").code == 2
    assert anywhere("dlq", "group", "resolve", name, "--dead-letters").code == 2  # no terminal to ask
    assert anywhere("dlq", "group", "resolve", name, "--dead-letters", "--expect", "3", "--yes").code == 6
    assert states(anywhere) == ["OPEN", "OPEN"]
    done = anywhere("dlq", "group", "resolve", name, "--dead-letters", "--yes")
    assert (done.code, "Resolved 2 dead letters." in done.err) == (0, True)
    assert states(anywhere) == ["RESOLVED", "RESOLVED"]
