"""What becomes of a failure group when its failure occurs again, and when time passes."""

from __future__ import annotations

from collections.abc import Iterable

from redrive.model.failure_group import UNKNOWN_VERSIONS, GroupSnapshot, GroupState, Reopening


def recurred(group: GroupSnapshot, versions: Iterable[str], now: float) -> Reopening | None:
    """Its failure has occurred again, in these versions of the code: is it open again, and why?

    The new occurrences are counted in `group` already.
    """
    if group.state == GroupState.RESOLVED:
        return Reopening("it was resolved, and has occurred again", regressed=True)
    if group.state != GroupState.IGNORED:
        return None
    return _time_over(group, now) or _too_many(group) or _another_version(group, versions)


def passed(group: GroupSnapshot, now: float) -> Reopening | None:
    """Time alone: is it open again, and why?"""
    return _time_over(group, now) if group.state == GroupState.IGNORED else None


def _time_over(group: GroupSnapshot, now: float) -> Reopening | None:
    if group.ignored_until is None or now < group.ignored_until:
        return None
    return Reopening("the time for which it was ignored is over")


def _too_many(group: GroupSnapshot) -> Reopening | None:
    if group.ignored_beyond is None or group.occurrences <= group.ignored_beyond:
        return None
    return Reopening(f"it has occurred more than {group.ignored_beyond:,} times")


def _another_version(group: GroupSnapshot, versions: Iterable[str]) -> Reopening | None:
    if group.ignored_version is None:
        return None
    others = set(versions) - UNKNOWN_VERSIONS - {group.ignored_version}
    if not others:
        return None
    return Reopening(f"it has occurred in version {min(others)}, not only in {group.ignored_version}")
