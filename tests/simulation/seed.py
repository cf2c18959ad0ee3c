"""From a seed to the whole script."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.simulation.generate import ORDER_KEYS, ORGS, Generator
from tests.simulation.generate_chores import with_chores
from tests.simulation.script import Script

ORDERED = 0.4
"""The share of scripts in which some runs have an order key."""


def script_of(seed: int) -> Script:
    script = with_chores(Generator(Random(f"script {seed}")).script(seed), seed)
    return _in_order(script, Random(f"order {seed}"))


def _in_order(script: Script, random: Random) -> Script:
    """Give some runs of one organization an order key; the other random numbers stay as they were."""
    if random.random() >= ORDERED:
        return script
    runs = [
        replace(run, org=ORGS[0], order_key=random.choice(ORDER_KEYS)) if random.random() < 0.6 else run
        for run in script.runs
    ]
    return replace(script, runs=tuple(runs))
