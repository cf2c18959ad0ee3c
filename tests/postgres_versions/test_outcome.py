from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.postgres_versions.outcome import Outcome, outcome, table

TESTS = """
import pytest

@pytest.fixture
def broken():
    raise OSError

def test_passes(): pass
def test_passes_too(): pass
def test_fails(): assert False
def test_has_no_fixture(broken): pass
@pytest.mark.skip
def test_is_skipped(): pass
"""


def _outcome(folder: Path, text: str) -> Outcome:
    (folder / "test_some.py").write_text(text)
    report = folder / "report.xml"
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
        "test_some.py",
    ]
    exit_code = subprocess.run(command, cwd=folder, env=environment, capture_output=True).returncode
    return outcome("18.1", report, exit_code, 2.5)


def test_tests_are_counted(tmp_path: Path) -> None:
    found = _outcome(tmp_path, TESTS)

    assert found == Outcome("18.1", passed=2, failed=2, skipped=1, seconds=2.5, exit_code=1)
    assert not found.is_success


def test_success(tmp_path: Path) -> None:
    assert _outcome(tmp_path, "def test_passes(): pass").is_success


def test_no_test_at_all_is_no_success(tmp_path: Path) -> None:
    assert not _outcome(tmp_path, "").is_success


def test_a_pytest_that_wrote_no_report_is_no_success(tmp_path: Path) -> None:
    found = outcome("18.1", tmp_path / "report.xml", 3, 2.5)

    assert not found.is_success
    assert table([found]).endswith("pytest ended with 3")


def test_table() -> None:
    lines = table(
        [
            Outcome("14.15", passed=1000, failed=2, skipped=30, seconds=123.4, exit_code=1),
            Outcome("15.10 (Debian 15.10-0+deb12u1)", passed=4, failed=0, skipped=0, seconds=5, exit_code=0),
        ]
    ).splitlines()

    assert [line.split()[-4:] for line in lines] == [
        ["passed", "failed", "skipped", "seconds"],
        ["1000", "2", "30", "123"],
        ["4", "0", "0", "5"],
    ]
    assert len({len(line) for line in lines}) == 1
