"""Generates the whole script from a seed."""

from __future__ import annotations

from random import Random

from tests.simulation.generate import Generator
from tests.simulation.generate_chores import with_chores
from tests.simulation.script import Script


def script_of(seed: int) -> Script:
    return with_chores(Generator(Random(f"script {seed}")).script(seed), seed)
