"""How a failure group changes when its failure occurs again, and when time passes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.model.failure_group import GROUP_TRANSITIONS, GroupSnapshot, GroupState, Reopening
from redrive.policy.recurrence import reopen_after_failure, reopen_after_time

NOW = 1_000.0


def standing(state: str = "IGNORED", **conditions: Any) -> GroupSnapshot:
    return GroupSnapshot(state, 10, None, None, None)._replace(**conditions)


def test_a_resolved_group_is_open_and_regressed() -> None:
    assert reopen_after_failure(standing("RESOLVED"), {"v1"}, NOW) == Reopening(
        "it was resolved and occurred again", regressed=True
    )


@pytest.mark.parametrize("state", ["OPEN", "ACKNOWLEDGED"])
def test_an_open_or_acknowledged_group_stays_so(state: str) -> None:
    assert reopen_after_failure(standing(state, ignored_until=1.0, ignored_beyond=1), {"v1"}, NOW) is None


def test_a_group_ignored_without_a_condition_stays_ignored() -> None:
    assert reopen_after_failure(standing(), {"v1", "v2"}, 1e12) is None


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ({"ignored_until": NOW + 0.001}, None),
        ({"ignored_until": NOW}, "the time for ignoring it has ended"),
        ({"ignored_beyond": 10}, None),
        ({"ignored_beyond": 9}, "it occurred more than 9 times"),
        ({"ignored_version": "v1"}, None),
        ({"ignored_version": "v0"}, "it occurred in version v1, not only in v0"),
        ({"ignored_until": NOW + 1, "ignored_beyond": 9}, "it occurred more than 9 times"),
    ],
)
def test_an_ignored_group_is_open_when_one_of_its_conditions_is_met(
    conditions: dict[str, Any], reason: str | None
) -> None:
    found = reopen_after_failure(standing(**conditions), {"v1"}, NOW)
    assert found == (None if reason is None else Reopening(reason))


@pytest.mark.parametrize("unknown", ["", "unversioned"])
def test_an_unknown_version_is_not_another_one(unknown: str) -> None:
    assert reopen_after_failure(standing(ignored_version="v1"), {unknown, "v1"}, NOW) is None


def test_time_alone_opens_only_groups_that_were_ignored_until_then() -> None:
    assert reopen_after_time(standing(ignored_until=NOW), NOW) is not None
    assert reopen_after_time(standing(ignored_until=NOW), NOW - 0.001) is None
    assert reopen_after_time(standing(ignored_beyond=1, ignored_version="v0"), 1e12) is None
    assert reopen_after_time(standing("RESOLVED", ignored_until=1.0), NOW) is None


@given(
    group=st.builds(
        GroupSnapshot,
        st.sampled_from(list(GroupState)),
        st.integers(1, 20),
        st.none() | st.floats(0, 2 * NOW),
        st.none() | st.integers(1, 20),
        st.none() | st.sampled_from(["", "v1", "v2"]),
    ),
    versions=st.sets(st.sampled_from(["", "v1", "v2", "v3"]), min_size=1),
)
def test_only_allowed_transitions_happen(group: GroupSnapshot, versions: set[str]) -> None:
    """I10: and an occurrence changes everything that time alone changes."""
    found = reopen_after_failure(group, versions, NOW)
    if found is not None:
        assert GROUP_TRANSITIONS.allows(GroupState(group.state), GroupState.OPEN)
        assert found.regressed is (group.state == GroupState.RESOLVED)
    if reopen_after_time(group, NOW) is not None:
        assert found is not None
