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
def test_selective_takes_what_a_later_redrive_can_help(category: Category) -> None:
    expected = None if category in HELPED else fact("redrive_cannot_help", category=str(category))
    assert rejection(Strategy.SELECTIVE, category) == expected


@loop_over("category", Category)
def test_manual_takes_only_what_is_asked_for(category: Category) -> None:
    assert rejection(Strategy.MANUAL, category) == fact("only_on_request")
    assert rejection(Strategy.MANUAL, category, requested=True) is None


@pytest.mark.parametrize("requested", [True, False])
def test_disabled_takes_nothing_and_says_so(requested: bool) -> None:
    found = rejection(Strategy.DISABLED, Category.TIMEOUT, requested=requested)
    assert found == fact("queue_disabled")


@pytest.mark.parametrize("strategy", [Strategy.AUTOMATIC, Strategy.SELECTIVE, Strategy.MANUAL])
def test_what_is_asked_for_enters(strategy: Strategy) -> None:
    assert rejection(strategy, Category.VALIDATION, requested=True) is None
