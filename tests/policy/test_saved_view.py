"""Saved views accept only queries that their page understands."""

from __future__ import annotations

import re

import pytest
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.model.saved_view import Looking, ViewedPage
from redrive.policy.query import MAX_SAVED_LENGTH, require_understood

DLQ, RUNS = ViewedPage.DLQ, ViewedPage.RUNS


@loop_over(
    "looking",
    [
        Looking(DLQ),
        Looking(DLQ, "is:open category:timeout"),
        Looking(DLQ, "group:regressed occurrences:>3", sort="occurrences"),
        Looking(DLQ, "is:open", "groups", "last_seen"),
        Looking(DLQ, "is:open", "flat", "oldest"),
        Looking(DLQ, "assignee:me queue:payments", sort="newest"),
        Looking(RUNS, "is:failed since:7d"),
        Looking(RUNS),
    ],
)
def test_a_query_that_its_page_understands_may_be_saved(looking: Looking) -> None:
    require_understood(looking)


@loop_over(
    ("looking", "told"),
    [
        (Looking(DLQ, "is:opne"), "did you mean 'open'?"),
        (Looking(DLQ, "quue:payments"), "did you mean 'queue'?"),
        (Looking(DLQ, "queue:payments", "groups"), "filters dead letters, not failure groups"),
        (Looking(DLQ, "group:open", "flat"), "filters failure groups, not dead letters"),
        (Looking(DLQ, "group:open queue:payments"), "remove one of them"),
        (Looking(DLQ, "is:open", "tiles"), "view must be one of 'groups', 'flat'"),
        (Looking(DLQ, "is:open", "groups", "oldest"), "sort must be one of 'last_seen', 'occurrences'"),
        (Looking(DLQ, "is:open", "flat", "last_seen"), "sort must be one of 'newest', 'oldest'"),
        (Looking(DLQ, "queue:payments", sort="last_seen"), "sort must be one of 'newest', 'oldest'"),
        (Looking(RUNS, "category:timeout"), "unknown key 'category'"),
        (Looking(RUNS, "is:failed", view="flat"), "the page of runs has no view"),
        (Looking(RUNS, "is:failed", sort="newest"), "the page of runs has no sort"),
        (Looking(DLQ, "x" * (MAX_SAVED_LENGTH + 1)), "at most 2,000 characters"),
    ],
)
def test_a_query_that_its_page_would_reject_is_not_saved(looking: Looking, told: str) -> None:
    with pytest.raises(InvalidValueError, match=re.escape(told)):
        require_understood(looking)
