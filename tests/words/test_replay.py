"""Bulk replays in words."""

from __future__ import annotations

from typing import Any

import pytest

from redrive.model.replay import HIDDEN, NOTHING, Mode
from redrive.policy.description import describe_rollout
from redrive.policy.rollout import RolloutOptions
from redrive.words.replay import MODES, describe_change, selection_of


def test_every_mode_has_a_title() -> None:
    assert set(MODES) == set(Mode)


def test_a_rollout_says_how_it_starts_how_fast_it_is_and_when_it_stops() -> None:
    assert list(describe_rollout(RolloutOptions(rate=2.5), 100)) == [
        "Starts with a canary of 10; the rest follows if it passes.",
        "At most 2.5 per second, so 36 s or longer.",
        "Stops automatically if more than 20% fail (checked once 10 have finished, and at the end of a "
        "canary), if 5 items failed again with the same error, or if a breaker opens that the rest "
        "depends on.",
    ]


def test_a_rollout_without_a_canary_starts_all_at_once() -> None:
    bold = RolloutOptions(canary=0, same_failures=None, stop_on_breaker=False, failure_rate=1.0)
    stops = (
        "Stops automatically if more than 100% fail (checked once 10 have finished, and at the end of a "
        "canary)."
    )
    assert list(describe_rollout(bold, 2)) == ["Starts all 2 immediately.", stops]


def test_a_rollout_at_a_rate_does_not_start_all_at_once() -> None:
    rate, *_ = describe_rollout(RolloutOptions(canary=0, rate=2.0), 180)
    assert rate == "At most 2 per second, so 1 min 30 s or longer."


@pytest.mark.parametrize("will_run", [0, 1])
def test_a_single_item_starts_at_once(will_run: int) -> None:
    assert list(describe_rollout(RolloutOptions(rate=1.0), will_run)) == ["Starts immediately."]


@pytest.mark.parametrize(
    ("stored", "kind", "text", "parameters"),
    [
        ({"query": "is:open"}, "query", "is:open", {"query": "is:open"}),
        ({"query": ""}, "query", "all dead letters", {"query": ""}),
        ({"group": "v1:ab"}, "group", "v1:ab", {"group": "v1:ab"}),
        ({"ids": ["a"], "number": 1}, "ids", "a", {"ids": ["a"]}),
        ({"ids": ["a", "b"], "number": 2}, "ids", "2 dead letters selected by id", {"ids": ["a", "b"]}),
        ({"ids": ["a"], "number": 300}, "ids", "300 dead letters selected by id", {}),
        ({}, "ids", "0 dead letters selected by id", {"ids": []}),
    ],
)
def test_a_selection(stored: dict[str, Any], kind: str, text: str, parameters: dict[str, Any]) -> None:
    found = selection_of(stored)
    assert (found.kind, found.text, found.parameters) == (kind, text, parameters)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("DE", "AT", 'country: "DE" → "AT"'),
        (NOTHING, None, "country: added null"),
        (7, NOTHING, "country: 7 → removed"),
        (HIDDEN, HIDDEN, "country: changed, not shown"),
        ("x" * 500, 1, 'country: "' + "x" * 78 + "… → 1"),
        ({"ö": [1]}, True, 'country: {"ö": [1]} → true'),
    ],
)
def test_a_change_of_a_payload_is_one_line(before: object, after: object, text: str) -> None:
    assert describe_change({"path": "country", "before": before, "after": after}) == text
