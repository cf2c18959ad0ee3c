"""Failure groups, as answers have them."""

from __future__ import annotations

from typing import Any

from redrive.model.failure_group import (
    FailureGroup,
    GroupDetail,
    GroupLine,
    GroupResolution,
    GroupVersion,
    Timeline,
)
from redrive.server.answer import when

_TIMES = ("first_seen", "last_seen", "regressed_at", "ignored_until", "changed_at")


def group_view(group: FailureGroup) -> dict[str, Any]:
    fields = group._asdict()
    del fields["org"], fields["sample"]
    for name in _TIMES:
        fields[name] = when(fields[name])
    fields["version"] = group.version
    return fields


def line_view(line: GroupLine | GroupDetail) -> dict[str, Any]:
    letters = {**line.letters._asdict(), "live": line.letters.live}
    return {**group_view(line.group), "dead_letters": letters}


def detail_view(detail: GroupDetail) -> dict[str, Any]:
    versions = [_version_view(each) for each in detail.versions]
    return {**line_view(detail), "versions": versions, "sample": detail.sample, "replays": detail.replays}


def resolution_view(resolution: GroupResolution) -> dict[str, Any]:
    done = {"resolved": resolution.letters, "left": resolution.left, "ids": resolution.ids}
    return {**group_view(resolution.group), **done}


def timeline_view(timeline: Timeline) -> dict[str, Any]:
    return {
        "start": when(timeline.start),
        "seconds": timeline.width,
        "numbers": timeline.numbers,
        "capped": timeline.capped,
    }


def _version_view(version: GroupVersion) -> dict[str, Any]:
    seen = {"first_seen": when(version.first_seen), "last_seen": when(version.last_seen)}
    return {**version._asdict(), **seen}
