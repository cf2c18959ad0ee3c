"""The checker finds nothing in a healthy history, and says how much it has checked."""

from __future__ import annotations

import pytest
from tests.verify.history import History

from redrive.model.violation import INVARIANTS
from redrive.parts import parts_of
from redrive.verify import Witness, verify
from redrive.words.violation import ADVICE, PROMISES

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_healthy_history_is_sound(history: History) -> None:
    await history.check_made()
    witness = Witness(history.runs.values(), ["f" * 32], history.effects)
    verdict = await verify(parts_of(history.app).database, witness=witness)
    assert verdict.sound, str(verdict)
    assert all(verdict.checked.values()), str(verdict)
    assert str(verdict).startswith("Every checked promise is kept.")


async def test_without_a_witness_its_checks_are_skipped(history: History) -> None:
    verdict = await verify(parts_of(history.app).database)
    assert {name for name, rows in verdict.checked.items() if not rows} == {"I1", "I2"}
    assert "I1   acknowledged runs exist, rejected runs don't: nothing to check" in str(verdict)


async def test_a_finding_reads_well(history: History) -> None:
    verdict = await verify(parts_of(history.app).database, witness=Witness(acknowledged=["lost"]))
    first, second, *_ = str(verdict).splitlines()
    assert first == "Broken promises: I1 (1)."
    assert second == "  I1   lost: Its start was acknowledged, but it is not in the database."


async def test_on_check_receives_each_promise_before_its_check(history: History) -> None:
    checked: list[str] = []
    witness = Witness(history.runs.values(), (), history.effects)
    await verify(parts_of(history.app).database, witness=witness, on_check=checked.append)
    assert set(checked) == set(INVARIANTS)
    assert len(checked) < 30  # not one for every row


async def test_for_each_promise_there_is_something_to_do() -> None:
    assert tuple(ADVICE) == tuple(PROMISES) == INVARIANTS
