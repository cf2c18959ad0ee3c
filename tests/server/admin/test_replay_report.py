"""The progress of a bulk replay, and planning it again: every part is visible and every number exact."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.model.operation import OperationReport, Plan, ReplayOperation
from redrive.model.replay import Mode, OperationState, ReplayState
from redrive.policy.rollout import RolloutOptions, RolloutPlan, Score
from redrive.server.admin.replay_report import (
    MIN_WIDTH,
    ORDER,
    WIDTH,
    bar,
    canary,
    ended,
    pace,
    plan_again,
    replayed,
    rollout_of,
)

PLAN = Plan("o", "d", "FROM_STEP", 10, 10, {}, 0, (), (), 0, 0, 0, ())


def operation(**changes: Any) -> ReplayOperation:
    made = ReplayOperation(
        id="o",
        org="default",
        state=OperationState.RUNNING,
        mode=Mode.FROM_STEP,
        selection={"query": "is:open"},
        options=RolloutPlan(RolloutOptions(canary=5)).to_json(),
        policy_override=None,
        reason="",
        plan={},
        planned_by="ana",
        planned_at=0.0,
        started_by="ana",
        started_at=0.0,
        released=0,
        released_at=None,
        ramped_at=100.0,
        ended_at=None,
        stopped_because=None,
        updated_at=0.0,
    )
    return made.replace(**changes)


def report(made: ReplayOperation, last_ended_at: float | None = 200.0, **items: int) -> OperationReport:
    counts = {str(state): items.get(str(state), 0) for state in ReplayState}
    return OperationReport(made, PLAN, counts, {}, (), 0.0, last_ended_at)


@given(st.lists(st.integers(0, 100_000), min_size=len(ORDER), max_size=len(ORDER)))
def test_a_bar_shows_whatever_there_is_and_is_full(numbers: list[int]) -> None:
    parts = bar({str(state): number for state, number in zip(ORDER, numbers, strict=True)})
    assert [each.number for each in parts] == numbers
    for part in parts:
        assert (part.width > MIN_WIDTH / 2) is (part.number > 0)
        assert -0.01 <= part.x <= part.x + part.width <= WIDTH + 0.05
    assert sum(each.width for each in parts) == pytest.approx(WIDTH if any(numbers) else 0.0, abs=0.1)


def test_refused_and_omitted_items_are_not_waited_for() -> None:
    counts = {
        "SUCCEEDED": 3,
        "FAILED": 1,
        "CANCELLED": 2,
        "RUNNING": 5,
        "PLANNED": 7,
        "REFUSED": 9,
        "SKIPPED": 9,
    }
    assert (ended(counts), replayed(counts)) == (6, 18)


def test_the_duration_is_estimated_from_the_time_after_the_canary() -> None:
    found = pace(report(operation(), SUCCEEDED=100, FAILED=5, PLANNED=40, RUNNING=10), _rollout(), 200.0)
    assert found == (1.0, 50.0)


@pytest.mark.parametrize(
    ("changes", "items", "now"),
    [
        ({"ramped_at": None}, {"SUCCEEDED": 100}, 200.0),
        ({"state": "PAUSED"}, {"SUCCEEDED": 100}, 200.0),
        ({}, {"SUCCEEDED": 24}, 200.0),
        ({}, {"SUCCEEDED": 100}, 231.0),
        ({"ramped_at": 199.0}, {"SUCCEEDED": 100}, 200.0),
    ],
    ids=["canary", "paused", "few", "standstill", "just begun"],
)
def test_guesses_are_not_shown(changes: dict[str, Any], items: dict[str, int], now: float) -> None:
    assert pace(report(operation(**changes), PLANNED=10, **items), _rollout(), now) is None


def test_the_canary_is_counted_again_after_an_automatic_stop() -> None:
    begun = operation(ramped_at=None, released=8)
    assert canary(report(begun, PLANNED=20, RUNNING=3, FAILED=5), _rollout(Score(5, 0, 5, 5))) == (5, 3, 0)
    assert canary(report(begun, PLANNED=20, RUNNING=3, FAILED=5), _rollout()) == (5, 5, 2)
    assert canary(report(operation(), PLANNED=20), _rollout()) is None
    assert canary(report(begun), RolloutPlan(RolloutOptions(canary=0))) is None


@pytest.mark.parametrize(
    ("selection", "again"),
    [
        ({"query": "is:open"}, {"query": "is:open"}),
        ({"query": ""}, {"query": ""}),
        ({"group": "v1:ab"}, {"group": "v1:ab"}),
        ({"ids": ["a"], "number": 1}, {"ids": ["a"]}),
        ({"ids": ["a", "b"], "number": 2}, {"ids": ["a", "b"]}),
        ({"ids": ["a"], "number": 300}, None),
    ],
)
def test_the_same_selection_is_planned_again(selection: dict[str, Any], again: Any) -> None:
    request = plan_again(operation(selection=selection))
    assert (request is None) is (again is None)
    if request is not None:
        assert request.items() >= again.items()


def test_many_chosen_by_hand_are_planned_again_as_far_as_they_are_known() -> None:
    made = operation(selection={"ids": ["a"], "number": 3})
    request = plan_again(made, ["a", "b", "c"])
    assert request is not None
    assert request["ids"] == ["a", "b", "c"]


@pytest.mark.parametrize("stored", [{}, {"pardoned": 1}, {"canary": "x", "pardoned": []}])
def test_a_damaged_operation_is_shown_nevertheless(stored: dict[str, Any]) -> None:
    assert rollout_of(operation(options=stored)) == RolloutPlan(RolloutOptions())
    assert (plan_again(operation(selection=stored)) or {})["ids"] == []


def _rollout(pardoned: Score | None = None) -> RolloutPlan:
    return RolloutPlan(RolloutOptions(canary=5), pardoned or Score())
