"""Type checkers and the public API: they accept `right.py`, and find each mistake of `wrong.py`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def _lines_with_errors(checker: str, name: str) -> set[int]:
    return _mypy(HERE / name) if checker == "mypy" else _pyright(HERE / name)


def _mypy(file: Path) -> set[int]:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        str(file),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {int(found[1]) for found in re.finditer(r"^[^:\n]+:(\d+): error:", done.stdout, re.MULTILINE)}


def _pyright(file: Path) -> set[int]:
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--level", "error", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    findings = json.loads(done.stdout)["generalDiagnostics"]
    return {found["range"]["start"]["line"] + 1 for found in findings if found["severity"] == "error"}


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_right_uses_are_accepted(checker: str) -> None:
    assert _lines_with_errors(checker, "right.py") == set()


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_every_mistake_is_found(checker: str) -> None:
    lines = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()
    mistakes = {number for number, line in enumerate(lines, start=1) if line.endswith("# wrong")}
    assert len(mistakes) > 15
    assert _lines_with_errors(checker, "wrong.py") == mistakes
