"""Compare the database with what an outside witness has seen: starts (I1) and side effects (I2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from redrive.model.run import RunState
from redrive.model.step import Effect, step_key
from redrive.model.violation import ViolationCode
from redrive.store.verification import ExecutedRow, VerificationQueries
from redrive.verify.rules import DefinitionRules
from redrive.verify.verdict import Verdict


class Witness(NamedTuple):
    """What callers and receivers outside the database have seen.

    acknowledged  ids of runs whose start was acknowledged
    refused       ids of runs whose start was rejected
    effects       how often a receiver accepted each step's idempotency key, counted after all work finished;
                  None if nothing was counted
    """

    acknowledged: Collection[str] = ()
    refused: Collection[str] = ()
    effects: Mapping[str, int] | None = None


async def check_witness(
    store: VerificationQueries, rules: DefinitionRules, verdict: Verdict, witness: Witness
) -> None:
    verdict.start("I1")
    await _check_acknowledged(store, verdict, witness.acknowledged)
    await _check_refused(store, verdict, witness.refused)
    if witness.effects is not None:
        verdict.start("I2")
        await _check_effects(store, rules, verdict, witness.effects)


async def _check_acknowledged(store: VerificationQueries, verdict: Verdict, ids: Collection[str]) -> None:
    wanted = sorted(set(ids))
    verdict.add_checked("I1", len(wanted))
    known = await store.known(wanted)
    for run_id in wanted:
        if run_id not in known:
            verdict.add_violation(ViolationCode.START_LOST, run_id)


async def _check_refused(store: VerificationQueries, verdict: Verdict, ids: Collection[str]) -> None:
    verdict.add_checked("I1", len(ids))
    for run_id in sorted(await store.known(sorted(set(ids)))):
        verdict.add_violation(ViolationCode.REJECTED_START_FOUND, run_id)


async def _check_effects(
    store: VerificationQueries, rules: DefinitionRules, verdict: Verdict, effects: Mapping[str, int]
) -> None:
    for key, times in effects.items():
        if times > 1:
            verdict.add_violation(ViolationCode.EFFECT_REPEATED, key, times=times)
    unknown = set(effects)
    async for row in store.executed():
        keys = [step_key(row.org, row.run_id, row.idempotency_key, index) for index in range(row.reached + 1)]
        unknown.difference_update(keys)
        index = _succeeded(row)
        rule = None if index is None else await rules.step(row.definition, index)
        if index is None or rule is None or rule.effect is Effect.NONE:
            continue
        verdict.add_checked("I2", 1)
        if not effects.get(keys[index]):
            verdict.add_violation(ViolationCode.EFFECT_MISSING, keys[index])
    for key in sorted(unknown):
        verdict.add_violation(ViolationCode.EFFECT_OF_NO_STEP, key)


def _succeeded(row: ExecutedRow) -> int | None:
    """Return the index of the step that succeeded; a run with one step has no separate row for it."""
    if row.finished is None and row.state == RunState.SUCCESS:
        return row.step_index
    return row.finished
