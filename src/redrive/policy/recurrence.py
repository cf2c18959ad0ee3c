"""Recurrence: whether a failure group reopens when its failure occurs again, or when time passes."""

from __future__ import annotations

from collections.abc import Iterable

from redrive.model.failure_group import UNKNOWN_VERSIONS, GroupSnapshot, GroupState, Reopening


def reopen_after_failure(group: GroupSnapshot, versions: Iterable[str], now: float) -> Reopening | None:
    """Decide after the failure occurred again in these code versions; `group` already counts it."""
    if group.state == GroupState.RESOLVED:
        return Reopening("it was resolved and occurred again", regressed=True)
    if group.state != GroupState.IGNORED:
        return None
    if (reopening := reopen_after_time(group, now)) is not None:
        return reopening
    if group.ignored_beyond is not None and group.occurrences > group.ignored_beyond:
        return Reopening(f"it occurred more than {group.ignored_beyond:,} times")
    others = set(versions) - UNKNOWN_VERSIONS - {group.ignored_version}
    if group.ignored_version is None or not others:
        return None
    return Reopening(f"it occurred in version {min(others)}, not only in {group.ignored_version}")


def reopen_after_time(group: GroupSnapshot, now: float) -> Reopening | None:
    if group.state != GroupState.IGNORED or group.ignored_until is None or now < group.ignored_until:
        return None
    return Reopening("the time for ignoring it has ended")
