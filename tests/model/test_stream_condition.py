"""The condition of a stream: the most urgent cause is shown."""

from __future__ import annotations

from typing import Any

import pytest

from redrive.model.fact import fact
from redrive.model.stream import START, StreamState
from redrive.model.stream_condition import (
    BEHIND_SECONDS,
    SILENT_SECONDS,
    StreamCondition,
    stream_condition,
)

NOW = 10_000.0


def state(**changes: Any) -> StreamState:
    fields: dict[str, Any] = dict.fromkeys(StreamState.__struct_fields__)
    fields |= {"org": "default", "name": "scores", "generation": 1, "identity": "i"}
    fields |= {"last_position": START.text, "gaps": "[]", "pending": 0, "reported_at": NOW}
    fields |= dict.fromkeys(("stored", "duplicates", "dead", "taken_over"), 0)
    return StreamState(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "condition"),
    [
        ({}, "reading"),
        ({"reported_at": None}, "unread"),
        ({"reported_at": NOW - SILENT_SECONDS - 1}, "silent"),
        ({"pending": None, "last_error": fact("redis_loading")}, "failing"),
        ({"last_error": fact("redis_loading")}, "reading"),
        ({"held_back": fact("stream_backlog", queued=2, max_queued=1)}, "held"),
        ({"held_back": fact("stream_other_reader")}, "reading"),
        ({"oldest_at": NOW - BEHIND_SECONDS - 1}, "behind"),
        ({"oldest_at": NOW - 1}, "reading"),
        ({"paused_at": NOW, "reported_at": None}, "paused"),
    ],
)
def test_the_condition_is_the_most_urgent_cause(changes: dict[str, Any], condition: str) -> None:
    assert stream_condition(state(**changes), NOW) == StreamCondition(condition)
