"""Permissions through a server, and output on a terminal: runs and dead letters."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.cli.conftest import Command
from tests.cli.served import Served
from tests.cli.shop import Shop
from tests.cli.terminal import talk

EVIL = "evil \x1b[31mred\x1b]0;owned\x07 \x9b2J \u202e and\r\nmore " + "long " * 60
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")

WRITING = (
    ("run", "cancel", "{run}"),
    ("run", "retry", "{run}"),
    ("dlq", "replay", "{letter}"),
    ("dlq", "resolve", "{letter}"),
    ("dlq", "ignore", "{letter}", "{letter}"),
    ("dlq", "archive", "--query", "is:open"),
    ("dlq", "reopen", "{letter}", "{run}"),
    ("dlq", "group", "resolve", "{group}", "--dead-letters"),
)


def looking(shop: Shop, redrive: Command) -> list[tuple[str, ...]]:
    """Return every command that only reads, with an object for each."""
    letter = shop.dead_letter(7, card="slow")
    [row] = json.loads(redrive("dlq", "list", "-o", "json").out)
    return [
        ("run", "list"),
        ("run", "view", row["run_id"]),
        ("run", "watch", row["run_id"]),
        ("dlq", "list"),
        ("dlq", "groups"),
        ("dlq", "groups", row["fingerprint"]),
        ("dlq", "view", letter, "--stack"),
        ("dlq", "stats"),
    ]


def test_a_viewer_reads_and_cannot_change_anything(redrive: Command, shop: Shop, served: Served) -> None:
    """I7."""
    looks = looking(shop, redrive)
    [before] = json.loads(redrive("dlq", "list", "-o", "json").out)
    served.enter("VIEWER")
    for each in looks:
        assert redrive(*each).code in (0, 7), each
    assert redrive("dlq", "export").code == 0
    names = {"run": before["run_id"], "letter": before["id"], "group": before["fingerprint"]}
    for verb in WRITING:
        ended = redrive(*(word.format(**names) for word in verb), "--yes")
        assert (ended.code, ended.out) == (5, ""), (verb, ended.err)
    for mark in (["assign", before["id"], "--to", "me"], ["note", before["id"], "x"]):
        assert redrive("dlq", *mark).code == 5
    assert redrive("dlq", "clear", "mails", "--expect", "0", "--yes").code == 5
    served.leave()
    assert json.loads(redrive("dlq", "list", "-o", "json").out) == [before]


def test_clearing_is_for_owners(redrive: Command, served: Served) -> None:
    served.enter("ADMIN")
    assert redrive("dlq", "clear", "mails", "--expect", "0", "--yes").code == 5
    served.enter("OWNER")
    assert redrive("dlq", "clear", "mails", "--expect", "0", "--yes").code == 0


@pytest.mark.parametrize("key", ["rdk_wrong", ""])
def test_a_wrong_key(redrive: Command, shop: Shop, served: Served, key: str) -> None:
    looks = looking(shop, redrive)
    served.enter(key=key)
    for each in looks:
        ended = redrive(*each)
        assert (ended.code, ended.out) == (4, "")
        assert "REDRIVE_API_KEY" in ended.err
        assert "Traceback" not in ended.err


def test_a_server_that_is_not_there(redrive: Command) -> None:
    ended = redrive("dlq", "list", "--server", "http://127.0.0.1:9")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("Error: http://127.0.0.1:9 can't be reached")


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_fits_the_terminal(
    redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    shop.message = EVIL + "日本語" * 40
    looks = looking(shop, redrive)
    monkeypatch.setenv("COLUMNS", str(columns))
    for each in looks:
        shown = redrive(*each, "-o", "table").out
        too_long = [line for line in shown.splitlines() if cell_len(line) > columns]
        assert [line for line in too_long if "redrive " not in line] == [], each


def test_ids_to_copy_are_complete(redrive: Command, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = looking(shop, redrive)
    monkeypatch.setenv("COLUMNS", "60")
    [letter], [run] = (json.loads(redrive(noun, "list", "-o", "json").out) for noun in ("dlq", "run"))
    for each in looks:
        shown = redrive(*each, "-o", "table").out
        if each == ("run", "list"):
            assert run["id"] in shown
        elif each == ("dlq", "list"):
            assert letter["id"] in shown
        for command in re.findall(r"^  (redrive .*?)(?:  .*)?$", shown, re.MULTILINE):
            assert "…" not in command


def test_nothing_steers_the_terminal(
    redrive: Command, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The terminal shows control characters of an error, and doesn't execute them."""
    shop.message = EVIL
    looks = looking(shop, redrive)
    for each in looks:
        for form in ("table", "plain", "csv", "json"):
            ended = redrive(*each, "-o", form)
            assert STEERING.search(ended.out + ended.err) is None, (each, form)
    monkeypatch.setenv("NO_COLOR", "1")
    talked = talk(tmp_path, list(looks[-2]), on_terminal=True)
    assert (talked.code, "evil" in talked.shown) == (0, True), talked.shown
    assert STEERING.search(talked.shown.replace("\r\n", "\n")) is None


def test_colors_only_for_a_terminal(
    redrive: Command, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = shop.dead_letter(7)
    view = ["dlq", "view", letter]
    assert "\x1b[31mopen\x1b[0m" in talk(tmp_path, view, on_terminal=True).shown
    assert "\x1b" not in talk(tmp_path, view).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in talk(tmp_path, view, on_terminal=True).shown


def test_a_reader_that_has_seen_enough(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    shop.message = "long " * 1_000
    for number in range(20):
        shop.order(number, card="slow", work="refund", wait=False)
    shop.work()
    command = f"{sys.executable} -m redrive.cli dlq export | head -n 1; echo ${{PIPESTATUS[0]}}"
    ended = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    first, code = ended.stdout.splitlines()
    assert (json.loads(first)["step"], code, ended.stderr) == ("refund", "0", "")


def test_an_empty_list_says_so_on_a_terminal(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    shop.work()
    assert redrive("dlq", "list", "-o", "json").out == "[]\n"
    talked = talk(tmp_path, ["dlq", "list"], on_terminal=True)
    assert (talked.code, talked.shown) == (0, "No open dead letters.\r\n")


def test_a_long_list_says_that_there_is_more(redrive: Command, shop: Shop) -> None:
    for number in range(3):
        shop.dead_letter(number)
    for form in ("table", "json", "ndjson", "csv", "plain"):
        listed = redrive("dlq", "list", "--limit", "2", "-o", form)
        assert listed.err == "Showing 2 of 3. Use --limit N or --all for more.\n"
        assert redrive("dlq", "list", "--limit", "3", "-o", form).err == ""
    assert redrive("run", "list", "--limit", "2", "-o", "json").err.startswith("Showing 2 of 3. ")
    assert len(redrive("dlq", "list", "--all").out.splitlines()) == 3
