"""Generates docs/internals/guards.md."""

from __future__ import annotations

from collections.abc import Iterable

from tests.guards.catchers import ROOT
from tests.guards.guard import Guard
from tests.guards.table import SIMULATED

PAGE = ROOT / "docs" / "internals" / "guards.md"
HEAD = """# Guards and the tests that prove them

A guard is a small piece of code that prevents one specific failure: a condition in an SQL statement, a line
of a function or a unique index. This page lists every guard, what goes wrong without it, and the tests that
prove it.

`python -m tests.guards` switches off one guard at a time and runs the tests listed for it. The command fails
if the tests do not notice, on each database that has the guard. Where a second guard prevents the same
failure, no test can notice; the last column then names the second guard.
`python -m tests.guards --simulate 100` checks that the [simulation](simulation.md) finds the guards marked
"the simulation".

`python -m tests.guards --write` generates this page.

| guard | without it | noticed by |
| --- | --- | --- |
"""


def page(guards: Iterable[Guard]) -> str:
    return HEAD + "".join(map(_line, guards))


def _line(guard: Guard) -> str:
    return f"| {guard.name} | {guard.prevents} | {_noticed(guard)} |\n"


def _noticed(guard: Guard) -> str:
    if guard.doubled_by:
        return f"backed up by {guard.doubled_by}"
    tests = [f"`{_short(test)}`" for test in guard.catchers]
    return "<br>".join(dict.fromkeys([*tests, *["the simulation"] * (guard.name in SIMULATED)]))


def _short(test: str) -> str:
    """Shorten the id of a test: omit the folder and the parameters."""
    file, _, name = test.partition("::")
    return f"{file.removeprefix('tests/')} {name.partition('[')[0].rpartition('::')[2] or name}"
