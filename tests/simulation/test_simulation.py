"""Seeded histories of the real engine on the real store: all promises hold, every fault takes effect."""

from __future__ import annotations

import pytest
from tests.simulation.campaign import run
from tests.simulation.coverage import ENOUGH, missing

PIECE = 50
"""Histories per test. With these seeds, every fault takes effect in each test."""

FIRST_SEEDS = (0, 50, 150, 200)


@pytest.mark.parametrize("piece", range(len(FIRST_SEEDS)))
def test_no_history_breaks_a_promise(piece: int) -> None:
    first = FIRST_SEEDS[piece]
    campaign = run(range(first, first + PIECE))
    assert not campaign.violations, "\n".join(map(str, campaign.violations[:3]))
    assert campaign.histories == PIECE
    assert not missing(campaign.occurrences, ENOUGH)
