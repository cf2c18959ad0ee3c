"""Which failures enter the dead-letter queue (M5)."""

from __future__ import annotations

import pytest
from tests.cases import loop_over

from redrive.model.failure import Category
from redrive.policy.triage import Strategy, enters

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
    assert enters(Strategy.AUTOMATIC, category)


@loop_over("category", Category)
def test_selective_takes_what_a_later_redrive_can_help(category: Category) -> None:
    found = enters(Strategy.SELECTIVE, category)
    assert bool(found) is (category in HELPED)
    assert found.reason.endswith(f"help against {category}")


@loop_over("category", Category)
def test_manual_takes_only_what_is_asked_for(category: Category) -> None:
    assert not enters(Strategy.MANUAL, category)
    assert enters(Strategy.MANUAL, category, requested=True)


@pytest.mark.parametrize("requested", [True, False])
def test_disabled_takes_nothing_and_says_so(requested: bool) -> None:
    found = enters(Strategy.DISABLED, Category.TIMEOUT, requested)
    assert not found
    assert found.reason == "the dead-letter queue is disabled"


@pytest.mark.parametrize("strategy", [Strategy.AUTOMATIC, Strategy.SELECTIVE, Strategy.MANUAL])
def test_what_is_asked_for_enters(strategy: Strategy) -> None:
    assert enters(strategy, Category.VALIDATION, requested=True)
