"""The outcome of the tests on one version of PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree


class Outcome(NamedTuple):
    version: str
    """The version as the server reports it."""

    passed: int
    failed: int
    skipped: int
    seconds: float
    exit_code: int
    """The exit code of pytest: only it shows tests that could not be collected."""

    @property
    def is_success(self) -> bool:
        return self.exit_code == 0 and self.passed > 0 and self.failed == 0


def outcome(version: str, report: Path, exit_code: int, seconds: float) -> Outcome:
    """Count the tests in pytest's JUnit report; pytest writes none if it is stopped early."""
    suites = ElementTree.parse(report).getroot() if report.exists() else ElementTree.Element("testsuites")

    def count(name: str) -> int:
        return sum(int(suite.get(name, 0)) for suite in suites)

    failed, skipped = count("failures") + count("errors"), count("skipped")
    return Outcome(version, count("tests") - failed - skipped, failed, skipped, seconds, exit_code)


def table(outcomes: Sequence[Outcome]) -> str:
    heading = f"{'PostgreSQL':32}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>8}"
    return "\n".join([heading, *map(_line, outcomes)])


def _line(outcome: Outcome) -> str:
    counts = f"{outcome.passed:8}{outcome.failed:8}{outcome.skipped:8}{outcome.seconds:8.0f}"
    problem = "" if outcome.is_success or outcome.failed else f"  pytest ended with {outcome.exit_code}"
    return f"{outcome.version:32}{counts}{problem}"
