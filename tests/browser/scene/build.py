"""Builds the scene in a separate process, because the scene replaces that process's time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def build(path: Path, scale: float) -> None:
    """Build a SQLite file. It appears when it is complete."""
    unfinished = path.with_suffix(".unfinished")
    url = f"sqlite:///{unfinished}"
    command = [sys.executable, "-m", "tests.browser.scene", "--url", url, "--scale", str(scale)]
    done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"the scene could not be built:\n{done.stderr}")
    unfinished.rename(path)
