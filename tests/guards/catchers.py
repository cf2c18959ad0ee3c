"""Runs the catchers of a guard with the guard off, in a separate process, and reads the outcome."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.guards.guard import Guard
from tests.guards.switch import VARIABLE

ROOT = Path(__file__).parents[2]
SIDES = ("sqlite", "postgres")
MAX_LENGTH = 120.0
_FOR_PYTEST = {
    "COLUMNS": "400",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}  # loading other plugins takes a second
_BROKEN = ("NameError", "ImportError", "SyntaxError", "UnboundLocalError")
_OUTCOME = re.compile(r"^(PASSED|FAILED) (\S+?::.+?)(?: - (.*))?$", re.MULTILINE)


class Catch(NamedTuple):
    """The result of the catchers. `problem` is empty if they noticed that the guard was off."""

    guard: Guard
    seconds: float
    noticed: str = ""
    problem: str = ""


class Outcomes(NamedTuple):
    passed: list[str]
    failed: dict[str, str]
    output: str


def caught(guard: Guard, environment: Mapping[str, str]) -> Catch:
    if guard.doubled_by:
        return Catch(guard, 0.0)
    began = time.monotonic()
    outcomes = run(guard.catchers, {**environment, VARIABLE: guard.name})
    seconds = time.monotonic() - began
    problem = _problem(outcomes)
    noticed = next(iter(outcomes.failed.values()), "")
    return Catch(guard, seconds, noticed, problem)


def run(tests: Sequence[str], environment: Mapping[str, str]) -> Outcomes:
    """Run these tests. A test that exceeds the timeout has noticed nothing."""
    plugins = ("-p", "pytest_asyncio.plugin", "-p", "tests.guards.plugin", "-p", "no:cacheprovider")
    options = (*plugins, "-rpf", "--tb=line", "--no-header")
    output = output_of([sys.executable, "-m", "pytest", *options, *tests], environment, MAX_LENGTH)
    found = _OUTCOME.findall(output)
    return Outcomes(
        [name for outcome, name, _ in found if outcome == "PASSED"],
        {name: message for outcome, name, message in found if outcome == "FAILED"},
        output,
    )


def output_of(command: Sequence[str], environment: Mapping[str, str], longest: float) -> str:
    own = {**os.environ, **environment, **_FOR_PYTEST}
    try:
        done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=longest)
    except subprocess.TimeoutExpired:
        return f"did not finish within {longest:g} s"
    return done.stdout + done.stderr


def _problem(outcomes: Outcomes) -> str:
    """Catchers that run on both databases must fail on each of them."""
    if not outcomes.failed:
        return "no test noticed that it was off" if outcomes.passed else outcomes.output[-2_000:]
    broken = next((text for text in outcomes.failed.values() if text.startswith(_BROKEN)), "")
    if broken:
        return f"with it off the code does not run at all, which any test would notice: {broken}"
    for side in SIDES:
        ran = any(_is_on(side, name) for name in (*outcomes.passed, *outcomes.failed))
        if ran and not any(_is_on(side, name) for name in outcomes.failed):
            return f"no test noticed on {side} that it was off"
    return ""


def _is_on(side: str, test: str) -> bool:
    return side in re.split(r"[\[\]-]", test.partition("[")[2])
