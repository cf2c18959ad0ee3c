"""The page about the guards, docs/internals/guards.md."""

from __future__ import annotations

from collections.abc import Iterable

from tests.guards.catching import ROOT
from tests.guards.guard import Guard
from tests.guards.table import SIMULATED

PAGE = ROOT / "docs" / "internals" / "guards.md"
HEAD = """# Guards, and what notices their absence

Every guard can be switched off: one condition of a statement, one line of a function, one index of the
tables. `python -m tests.guards` does so with each in turn and runs the tests that are named beside it; it
fails if they do not notice the absence of a guard, on each database that has it. Where two prevent the same,
the table says so. `python -m tests.guards --simulate 100` shows what the simulation finds as well. This page
is written by `python -m tests.guards --write`.

| guard | without it | noticed by |
| --- | --- | --- |
"""


def page(guards: Iterable[Guard]) -> str:
    return HEAD + "".join(map(_line, guards))


def _line(guard: Guard) -> str:
    return f"| {guard.name} | {guard.prevents} | {_noticed(guard)} |\n"


def _noticed(guard: Guard) -> str:
    if guard.doubled_by:
        return f"doubled by {guard.doubled_by}"
    tests = [f"`{_short(test)}`" for test in guard.catchers]
    return "<br>".join(dict.fromkeys([*tests, *["the simulation"] * (guard.name in SIMULATED)]))


def _short(test: str) -> str:
    """Without the folder, and without the parameters."""
    file, _, name = test.partition("::")
    return f"{file.removeprefix('tests/')} {name.partition('[')[0].rpartition('::')[2] or name}"
