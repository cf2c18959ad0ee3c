"""Deterministic simulation of the real engine on the real store: see docs/internals/simulation.md."""

from tests.simulation.campaign import Violation, find_violation

__all__ = ["Violation", "find_violation"]
