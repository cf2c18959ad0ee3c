"""The pytest plugin, in a separate pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from redrive.app import Redrive
from redrive.parts import parts_of

app = Redrive("sqlite:///real.db", log=False)

@app.task
async def greet(name: str) -> str:
    return f"hello {name}"
"""

CONFTEST = """
import pytest
import program

@pytest.fixture
def redrive_app():
    return program.app
"""

TESTS = """
import program
from redrive.parts import parts_of
from redrive.testing import Harness

BEFORE = parts_of(program.app).database

async def test_it_is_in_memory(redrive_test):
    assert isinstance(redrive_test, Harness)
    run = await program.app.start("greet", "you")
    assert await redrive_test.drain() == 1
    assert await run.result() == "hello you"
    assert parts_of(program.app).database is not BEFORE

async def test_it_is_empty_again(redrive_test):
    await redrive_test.assert_nothing_started()

def test_it_is_put_back():
    assert parts_of(program.app).database is BEFORE
"""

WITHOUT = """
async def test_there_is_an_application_anyway(redrive_app, redrive_test):
    @redrive_app.task
    async def work() -> int:
        return 1

    assert await redrive_test.execute(work) == 1

def test_a_sync_test_can_have_it_too(redrive_test):
    assert redrive_test.clock.time == 0.0
"""


def run_pytest(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    settings = [
        "-o",
        "asyncio_mode=auto",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
        "-W",
        "error",
        "--rootdir",
        str(folder),
        "-p",
        "no:xdist",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [*command, *settings, *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def test_a_custom_application(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_program.py").write_text(TESTS)
    assert "3 passed" in (told := run_pytest(tmp_path)), told
    assert not (tmp_path / "real.db").exists()


def test_without_an_application(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(WITHOUT)
    told = run_pytest(tmp_path)
    assert "2 errors" in told, told
    assert "define a fixture `redrive_app`" in told, told


def test_its_fixtures_are_documented(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(WITHOUT)
    told = run_pytest(tmp_path, "--fixtures")
    assert "redrive_test" in told
    assert "in-memory database and a virtual clock" in told


def test_it_is_found_by_pytest_without_being_named() -> None:
    from importlib.metadata import entry_points

    names = [each.value for each in entry_points(group="pytest11")]
    if "redrive.pytest_plugin" not in names:
        pytest.fail("the wheel must declare the entry point pytest11: redrive = 'redrive.pytest_plugin'")
