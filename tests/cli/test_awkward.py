"""Awkward environments: closed streams, full disks, devices, old tables, terminal control characters."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from tests.cli.conftest import Command
from tests.cli.shop import Shop
from tests.store.version_0_1 import NEWEST, create_tables

from redrive.cli.outcome import report_error
from redrive.cli.terminal import escape_controls, out
from redrive.store.sqlite import SqliteDatabase


def version_of(file: Path) -> int:
    connection = apsw.Connection(str(file))
    found = connection.execute("SELECT max(version) FROM migrations").get
    connection.close()
    return int(found)


@pytest.fixture
def old_database(redrive: Command, tmp_path: Path) -> Path:
    """A database of version 0.1."""
    database = SqliteDatabase(str(tmp_path / "redrive.db"))
    asyncio.run(create_tables(database))
    asyncio.run(database.close())
    return tmp_path / "redrive.db"


def executed(directory: Path, arguments: str) -> subprocess.CompletedProcess[str]:
    """Execute a command in a shell, with any redirections."""
    command = f"{sys.executable} -m redrive.cli {arguments}"
    return subprocess.run(command, shell=True, cwd=directory, text=True, capture_output=True, check=False)


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(redrive: Command, shop: Shop, tmp_path: Path, closed: str) -> None:
    shop.dead_letter(1)
    ended = executed(tmp_path, f"dlq list {closed}")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_ids_from_a_closed_stream(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    shop.dead_letter(1)
    ended = executed(tmp_path, "dlq resolve - --yes <&-")
    assert (ended.returncode, "No ids on stdin" in ended.stderr) == (2, True)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no such device")  # noqa: PTH110
def test_a_full_disk(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    shop.dead_letter(1)
    ended = executed(tmp_path, "dlq list > /dev/full")
    assert (ended.returncode, ended.stderr) == (1, "Error: No space left on device\n")


def test_a_pipe_is_not_replaced_by_a_file(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    """Nor is a device: `--output-file /dev/null` would have removed it for all programs."""
    shop.dead_letter(1)
    os.mkfifo(tmp_path / "pipe")
    ended = redrive("dlq", "export", "--output-file", "pipe", "--yes")
    assert (ended.code, "is not a regular file" in ended.err) == (2, True)
    assert (tmp_path / "pipe").is_fifo()


def test_a_link_stays_one(redrive: Command, shop: Shop, tmp_path: Path) -> None:
    shop.dead_letter(1)
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert redrive("dlq", "export", "--output-file", "link").code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there").read_text().startswith("{")


@pytest.mark.parametrize(
    "arguments",
    [
        ("org", "create", "acme", "--dry-run"),
        ("key", "create", "ci", "--role", "OWNER", "--dry-run"),
        ("member", "add", "ada", "--role", "OWNER", "--dry-run"),
    ],
)
def test_a_dry_run_makes_no_database(redrive: Command, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert redrive(*arguments).code == 3
    assert not (tmp_path / "redrive.db").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("org", "create", "acme", "--dry-run"),
        ("org", "create", "acme"),
        ("dlq", "list"),
        ("dlq", "resolve", "--query", "is:open", "--dry-run"),
        ("policy", "simulate", "run"),
        ("policy", "list", "--stored"),
    ],
)
def test_only_migrate_changes_old_tables(
    redrive: Command, old_database: Path, arguments: tuple[str, ...]
) -> None:
    ended = redrive(*arguments)
    assert (ended.code, "run `redrive migrate`" in ended.err) == (6, True)
    assert version_of(old_database) == NEWEST


@pytest.mark.parametrize("arguments", [("run", "view", "\udcff"), ("dlq", "list", "\udcff")])
def test_arguments_that_are_no_text(redrive: Command, shop: Shop, arguments: tuple[str, ...]) -> None:
    shop.dead_letter(1)
    ended = redrive(*arguments)
    assert (ended.code, "is not valid UTF-8" in ended.err) == (2, True)


@pytest.mark.parametrize(("ago", "told"), [("9999w", "from 0 s to 36500 d"), ("99999999w", "is too long")])
def test_before_all_calendars(redrive: Command, ago: str, told: str) -> None:
    ended = redrive("audit", "list", "--since", ago)
    assert (ended.code, told in ended.err) == (2, True)


def test_a_traceback_shows_no_secret_and_steers_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    report_error(RuntimeError("postgresql://u:canary@h/d \x1b]0;owned\x07"), debug=True)
    shown = capsys.readouterr().err
    assert "Traceback" in shown or "RuntimeError" in shown
    assert "canary" not in shown
    assert "\x1b" not in shown


def test_only_our_own_colors_reach_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda *_: False)
    out(("failed", "bad"), "\n\tagain \x1b[31mred")
    assert capsys.readouterr().out == "\x1b[31mfailed\x1b[0m\n\tagain \\x1b[31mred\n"
    assert escape_controls("\x1b[8mhidden\r\x9b2J") == "\\x1b[8mhidden\\r\\x9b2J"


def test_output_without_a_reader_does_not_stop_the_command(
    redrive: Command, shop: Shop, tmp_path: Path
) -> None:
    """Progress messages don't stop the work: it completes even if stderr has no reader."""
    letter = shop.dead_letter(1)
    executed(tmp_path, f"dlq replay {letter} --yes --no-wait 2>&1 >/dev/null | true")
    assert '"REPLAYING"' in redrive("dlq", "view", letter, "-o", "json").out


def test_names_in_commands_to_copy_are_single_words(redrive: Command) -> None:
    made = redrive("org", "create", "two words")
    assert "--org 'two words'`" in made.err
    added = redrive("member", "add", "ada", "--role", "OWNER", "--org", "two words")
    assert "--org 'two words'`" in added.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("verify", "--tolerance", "nan"), "a number of seconds"),
        (("replay", "plan", "x", "--policy", "a=" + "[" * 50_000), "neither a number nor JSON"),
        (
            ("dlq", "replay", "x", "--payload", "deep.json", "--reason", "why"),
            "the payload is not valid JSON",
        ),
    ],
)
def test_numbers_and_documents_that_are_none(
    redrive: Command, shop: Shop, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    shop.work()  # creates the database
    (tmp_path / "deep.json").write_text("[" * 100_000)
    ended = redrive(*arguments)
    assert (ended.code, told in ended.err, len(ended.err) < 2_000) == (2, True, True)
