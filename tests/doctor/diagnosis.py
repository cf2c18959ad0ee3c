"""Reading a report: the doctor's finding about one check."""

from __future__ import annotations

from redrive.doctor import Finding, HealthReport, State


def about(report: HealthReport, check: str) -> list[Finding]:
    return [each for each in report.findings if each.check == check]


def only(report: HealthReport, check: str) -> Finding:
    [finding] = about(report, check)
    return finding


def is_complete(finding: Finding) -> bool:
    """Tell whether a problem names its meaning and its remedy."""
    if finding.state in (State.OK, State.NOTE, State.UNKNOWN):
        return bool(finding.seen)
    return bool(finding.seen and finding.meaning and finding.advice)
