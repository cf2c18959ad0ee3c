"""Which failures enter the dead-letter queue (M5)."""

from __future__ import annotations

import pytest
from tests.cases import loop_over

from redrive.model.fact import fact
from redrive.model.failure import Category
from redrive.policy.triage import Strategy, rejection

HELPED = {
    Category.TIMEOUT,
    Category.NETWORK,
    Category.PROVIDER_5XX,
    Category.RATE_LIMIT,
    Category.RESOURCE,
    Category.CANCELLED,
}


@loop_over("category", Category)
def test_automatic_takes_every_failure(category: Category) -> None:
    assert rejection(Strategy.AUTOMATIC, category) is None


@loop_over("category", Category)
def test_selective_accepts_failures_that_a_redrive_may_fix(category: Category) -> None:
    expected = None if category in HELPED else fact("redrive_cannot_help", category=str(category))
    assert rejection(Strategy.SELECTIVE, category) == expected


@loop_over("category", Category)
def test_manual_accepts_only_requested_letters(category: Category) -> None:
    assert rejection(Strategy.MANUAL, category) == fact("only_on_request")
    assert rejection(Strategy.MANUAL, category, requested=True) is None


@pytest.mark.parametrize("requested", [True, False])
def test_disabled_rejects_everything_with_a_reason(requested: bool) -> None:
    found = rejection(Strategy.DISABLED, Category.TIMEOUT, requested=requested)
    assert found == fact("queue_disabled")


@pytest.mark.parametrize("strategy", [Strategy.AUTOMATIC, Strategy.SELECTIVE, Strategy.MANUAL])
def test_a_requested_letter_enters(strategy: Strategy) -> None:
    assert rejection(strategy, Category.VALIDATION, requested=True) is None
