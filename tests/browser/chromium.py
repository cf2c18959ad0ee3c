"""A Chromium for the tests: the configured one, an installed one, or one that this module installs.

Preferably the headless shell, Chromium without windows, with which the tests take two thirds of the time.
Without a browser the tests of the pages fail; they are not skipped.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "REDRIVE_TEST_CHROMIUM"
SHELL = "chromium-headless-shell"
NAMES = (SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LOCK = "redrive-chromium.lock"
_OWN = (
    "chromium_headless_shell-*/*/*headless*shell",
    "chromium-*/chrome-linux*/chrome",
    "chromium-*/chrome-mac*/*.app/Contents/MacOS/*",
)


class NoChromiumError(Exception):
    """No browser is available for the tests of the pages, and none could be installed."""


def chromium() -> Path:
    """Return the program, and install it if needed. While one process installs it, the others wait."""
    if found := _found():
        return found
    with _alone():
        if found := _found():  # another process has installed it meanwhile
            return found
        told = [_installed(command) for command in _ways()]
        if found := _found():
            return found
    raise NoChromiumError(
        f"the tests of the pages need Chromium: install it (on Debian: apt-get install {SHELL}), or name the "
        f"program in {VARIABLE}. " + " ".join(told)
    )


def _found() -> Path | None:
    named = os.environ.get(VARIABLE)
    if named:
        if os.access(named, os.X_OK):
            return Path(named)
        raise NoChromiumError(f"{VARIABLE} names {named}, which is not a program")
    for each in NAMES:
        if program := shutil.which(each):
            return Path(program)
    return next(_of_playwright(), None)


def _of_playwright() -> Iterator[Path]:
    """Yield the browsers in the folders of `playwright install`, the newest of a kind first."""
    for place in _caches():
        for pattern in _OWN:
            yield from sorted(
                (each for each in place.glob(pattern) if os.access(each, os.X_OK)), reverse=True
            )


def _caches() -> list[Path]:
    named = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    home = Path.home()
    usual = [home / ".cache" / "ms-playwright", home / "Library" / "Caches" / "ms-playwright"]
    return [Path(named), *usual] if named else usual


def _ways() -> Iterator[list[list[str]]]:
    """Yield lists of commands that install a browser and could work here; a later list is a fallback."""
    if (prefix := _as_root()) is not None and shutil.which("apt-get"):
        apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
        yield [
            [*apt, "update", "-qq"],
            [*apt, "install", "-qq", "-y", "--no-install-recommends", SHELL],
        ]
        if _found():
            return
    yield [[sys.executable, "-m", "playwright", "install", SHELL]]


def _as_root() -> list[str] | None:
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo and subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode == 0:
        return [sudo, "-n"]
    return None


def _installed(commands: list[list[str]]) -> str:
    """Execute the commands, and return what went wrong, if anything did."""
    for command in commands:
        print("installing a browser for the tests:", " ".join(command), file=sys.stderr)
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"`{' '.join(command)}` failed: {error}"
        if done.returncode != 0:
            return f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()[-500:]}"
    return ""


@contextmanager
def _alone() -> Iterator[None]:
    with (Path(tempfile.gettempdir()) / f"{LOCK}.{os.geteuid()}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
