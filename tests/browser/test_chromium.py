"""Finding and installing a browser, with commands that replace those of a system without one."""

from __future__ import annotations

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.browser.chromium import SHELL, VARIABLE, NoChromiumError, chromium


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system without a browser; the value is the folder of its commands."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("env", "sh", "mkdir", "cp", "chmod"):
        found = shutil.which(name)
        assert found is not None
        (commands / name).symlink_to(found)
    _command(commands / "sudo", 'shift; exec "$@"')
    _command(commands / "python", "exit 1")
    monkeypatch.setenv("PATH", str(commands))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(commands / "python"))
    for name in (VARIABLE, "PLAYWRIGHT_BROWSERS_PATH"):
        monkeypatch.delenv(name, raising=False)
    return commands


def _command(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_configured_browser_is_used(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _command(bare / "chromium", "")
    named = _command(bare / "mine", "")
    monkeypatch.setenv(VARIABLE, str(named))
    assert chromium() == named


def test_a_configured_path_without_a_program_is_rejected(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(bare / "nothing"))
    with pytest.raises(
        NoChromiumError, match=r"REDRIVE_TEST_CHROMIUM names .*nothing, which is not a program"
    ):
        chromium()


@pytest.mark.parametrize("name", ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"])
def test_a_browser_of_the_system_is_found(bare: Path, name: str) -> None:
    _command(bare / name, "")
    assert chromium() == bare / name


def test_a_browser_of_playwright_is_found_and_a_shell_before_a_browser(bare: Path, tmp_path: Path) -> None:
    for name in (
        "chromium-1254/chrome-linux64/chrome",
        "chromium_headless_shell-1169/chrome-linux/headless_shell",
        "chromium_headless_shell-1254/chrome-headless-shell-linux64/chrome-headless-shell",
    ):
        place = tmp_path / ".cache" / "ms-playwright" / name
        place.parent.mkdir(parents=True)
        _command(place, "")
        assert chromium() == place


def test_the_system_installs_one(bare: Path, tmp_path: Path) -> None:
    made = f'[ "$1" = update ] || {{ cp {bare}/sudo {bare}/{SHELL}; }}'
    _command(bare / "apt-get", f'echo "$@" >> {tmp_path}/asked\n{made}')
    assert chromium() == bare / SHELL
    told = (tmp_path / "asked").read_text().splitlines()
    assert told == ["update -qq", "install -qq -y --no-install-recommends chromium-headless-shell"]


def test_playwright_installs_one_where_the_system_cannot(bare: Path, tmp_path: Path) -> None:
    _command(bare / "apt-get", "exit 100")
    place = tmp_path / ".cache" / "ms-playwright" / "chromium-1254" / "chrome-linux64"
    made = f"mkdir -p {place} && cp {bare}/sudo {place}/chrome"
    _command(bare / "python", f'[ "$*" = "-m playwright install chromium-headless-shell" ] && {made}')
    assert chromium() == place / "chrome"


def test_of_two_that_need_one_only_one_installs_it(bare: Path, tmp_path: Path) -> None:
    made = f'[ "$1" = update ] || {{ echo >> {tmp_path}/times; cp {bare}/sudo {bare}/{SHELL}; }}'
    _command(bare / "apt-get", made)
    with ThreadPoolExecutor(3) as threads:
        several = [threads.submit(chromium) for _ in range(3)]
    assert [each.result() for each in several] == [bare / SHELL] * 3
    assert len((tmp_path / "times").read_text().splitlines()) == 1


def test_without_any_way_to_install_one_the_error_says_what_to_do(bare: Path) -> None:
    _command(bare / "apt-get", "echo 'no network' >&2; exit 100")
    with pytest.raises(
        NoChromiumError, match=r"(?s)apt-get install chromium.*REDRIVE_TEST_CHROMIUM.*no network"
    ):
        chromium()
