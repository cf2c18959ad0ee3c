"""Whatever is changed by hand in a healthy history, the checker finds exactly that."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.store.build import ask
from tests.verify.history import History
from tests.verify.tampering import CHANGES, LOST_IN_TIME, RUN, Change, definition_of, redefine, tampering

from redrive.errors import StoreError
from redrive.parts import parts_of
from redrive.store.database import Session
from redrive.testing import VirtualClock
from redrive.verify import Verdict, Witness, verify

pytestmark = pytest.mark.asyncio(loop_scope="module")


def found(verdict: Verdict) -> set[tuple[str, str]]:
    return {(each.invariant, each.subject) for each in verdict.findings}


def texts(verdict: Verdict) -> str:
    return "\n".join(each.text for each in verdict.findings)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.run}: {change.text}")
async def test_a_change_by_hand_is_found(history: History, change: Change) -> None:
    run_id = history.runs[change.run]
    async with tampering(history) as session:
        await ask(session, change.text, id=run_id)
        verdict = await verify(session)
    subjects = change.subject.split() or [run_id]
    expected = {(invariant, subject) for invariant in change.invariants.split() for subject in subjects}
    assert found(verdict) == expected, str(verdict)
    assert change.says in texts(verdict)
    for each in verdict.findings:
        assert tuple(each.fields) == each.code.fields
        assert json.loads(json.dumps(each.to_json())) == each.to_json(), "JSON values, whatever the database"


@pytest.mark.parametrize("app", ["postgres"], indirect=True)
async def test_postgresql_rejects_a_place_that_does_not_exist(history: History) -> None:
    async with tampering(history) as session:
        with pytest.raises(StoreError, match="idle_place"):
            await ask(session, RUN.format("place = 'nowhere'"), id=history.runs["future"])


POLICIES: list[tuple[str, str, str, Callable[[dict[str, Any]], object]]] = [
    ("dead", "I3", "retry 2, but 1 are allowed", lambda policy: policy.update(max_attempts=2)),
    ("hinted", "I3", "rate-limit wait 1, but 0", lambda policy: policy.update(max_rate_limit_waits=0)),
    ("deferred", "I3", "release 1, but 0 are allowed", lambda policy: policy.update(max_holds=0)),
    ("fading", "I3", "never retries", lambda policy: policy["backoff"].update(curve={"kind": "never"})),
    ("fading", "I5", "allows 5 to 10 s", lambda policy: policy["backoff"].update(cap=10.0)),
    (
        "fading",
        "I5",
        "allows 1 to 2 s",
        lambda policy: policy.update(
            backoff_by_category={"unknown": {**policy["backoff"], "cap": 2.0}},
        ),
    ),
]


@pytest.mark.parametrize(("run", "invariant", "says", "change"), POLICIES)
async def test_attempts_are_held_against_the_stored_policy(
    history: History, run: str, invariant: str, says: str, change: Callable[[dict[str, Any]], object]
) -> None:
    async with tampering(history) as session:
        await redefine(session, history.runs[run], change)
        verdict = await verify(session)
    assert found(verdict) == {(invariant, history.runs[run])}, str(verdict)
    assert says in texts(verdict)


async def test_a_policy_that_overrides_the_defined_one_counts(history: History) -> None:
    override = (
        '{"name":"x","max_attempts":1,"backoff":{"curve":{"kind":"immediate"},"cap":1,"jitter":{"kind":"none"}},'
        '"backoff_by_category":{},"also_retry":[],"never_retry":[],"max_rate_limit_waits":0,"max_holds":0,'
        '"ending":"bury"}'
    )
    async with tampering(history) as session:
        await ask(
            session, RUN.format("policy_override = :override"), id=history.runs["fading"], override=override
        )
        verdict = await verify(session)
    assert found(verdict) == {("I3", history.runs["fading"]), ("I5", history.runs["fading"])}


async def test_a_server_may_ask_for_a_longer_wait(history: History) -> None:
    longer = "delay = 9999.0, ended_at = ended_at - 9999.0, decision = :hinted"
    text = f"UPDATE redrive.attempts SET {longer} WHERE run_id = :id AND number = 1"
    async with tampering(history) as session:
        await ask(session, text, id=history.runs["fading"], hinted='{"code":"backoff","hint":9999.0}')
        assert (await verify(session)).sound


async def test_12_i14_a_dead_letter_without_its_entries_is_found(history: History) -> None:
    """Also if the whole audit of the organization is gone, with its head."""
    async with tampering(history) as session:
        runs = {str(row[0]) for row in await ask(session, "SELECT run_id FROM redrive.dead_letters")}
        assert runs
        await ask(session, "DELETE FROM redrive.audit")
        await ask(session, "DELETE FROM redrive.audit_heads")
        verdict = await verify(session)
    assert found(verdict) == {("I14", run_id) for run_id in runs}, str(verdict)
    assert "has no entry that says when its dead letter" in texts(verdict)


@pytest.mark.parametrize("state", ["RESOLVED", "IGNORED", "ARCHIVED"])
async def test_12_i14_a_dead_letter_that_was_closed_without_an_entry_is_found(
    history: History, state: str
) -> None:
    async with tampering(history) as session:
        run_id = history.runs["dead"]
        text = "UPDATE redrive.dead_letters SET state = :state WHERE run_id = :id"
        await ask(session, text, id=run_id, state=state)
        verdict = await verify(session)
    assert ("I14", run_id) in found(verdict), str(verdict)
    assert f"is {state}, but the audit log has no entry that says why" in texts(verdict)


async def test_jitter_that_does_not_spread_is_found(history: History) -> None:
    async with tampering(history) as session:
        digest = await definition_of(session, history.runs["flaky"])
        those = "run_id IN (SELECT id FROM redrive.runs WHERE definition = :d)"
        same = f"UPDATE redrive.attempts SET delay = 0.001 WHERE {those}"
        await ask(session, same, d=digest)
        verdict = await verify(session)
    assert found(verdict) == {("I5", digest)}, str(verdict)
    assert "does not spread" in texts(verdict)


async def test_a_definition_that_cannot_be_read_is_found(history: History) -> None:
    async with tampering(history) as session:
        digest = await definition_of(session, history.runs["dead"])
        await ask(session, "UPDATE redrive.definitions SET body = '{}' WHERE digest = :d", d=digest)
        verdict = await verify(session)
    assert found(verdict) == {("I10", digest)}
    assert "The definition of 1 run can't be read" in texts(verdict)


async def test_a_success_before_the_last_step_is_found(history: History) -> None:
    run_id = history.runs["single"]
    async with tampering(history) as session:
        definition = await definition_of(session, history.runs["midway"])
        change = RUN.format("definition = :definition, workflow = 'two steps'")
        await ask(session, change, id=run_id, definition=definition)
        verdict = await verify(session)
    assert found(verdict) == {("I10", run_id)}
    assert "but its definition has 2 steps" in texts(verdict)


async def test_a_state_that_is_none_is_found_twice(history: History) -> None:
    run_id = history.runs["single"]
    async with tampering(history) as session:
        await ask(session, RUN.format("state = 'GONE'"), id=run_id)
        verdict = await verify(session)
    assert {("I10", run_id), ("I16", "GONE")} <= found(verdict)
    assert "No total counts 1 run with this state" in texts(verdict)


async def test_a_dead_letter_of_a_run_that_has_not_failed_is_found(history: History) -> None:
    async with tampering(history) as session:
        change = "UPDATE redrive.dead_letters SET run_id = :other WHERE run_id = :id"
        await ask(session, change, id=history.runs["dead"], other=history.runs["single"])
        verdict = await verify(session)
    assert found(verdict) == {("I7", history.runs["dead"]), ("I7", history.runs["single"])}
    assert "is OPEN for step 1, but the run is SUCCESS in step 1" in texts(verdict)


async def test_a_dead_letter_that_was_dealt_with_is_fine(history: History) -> None:
    async with tampering(history) as session:
        change = "UPDATE redrive.dead_letters SET state = 'RESOLVED' WHERE run_id = :id"
        await ask(session, change, id=history.runs["dead"])
        verdict = await verify(session)
    assert found(verdict) == {("I14", history.runs["dead"])}, "only the audit misses the entry"


async def test_a_breaker_that_has_let_through_for_long_is_found(history: History) -> None:
    async with tampering(history) as session:
        await ask(session, RUN.format(LOST_IN_TIME), id=history.runs["broken"])
        assert (await verify(session)).sound
        await ask(session, "UPDATE redrive.breakers SET body = 'nonsense'")
        assert (await verify(session)).sound, "somebody has just looked after it"
        await ask(session, "UPDATE redrive.breakers SET updated_at = 1")
        verdict = await verify(session)
    assert found(verdict) == {("I6", "breaker:mail")}
    assert "could have released them more than 60 s ago" in texts(verdict)


class _Busy(VirtualClock):
    """While somebody waits on it, the first held run is released and claimed, and held again."""

    def __init__(self, session: Session, run_id: str) -> None:
        super().__init__()
        self._session = session
        self._run_id = run_id

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        await ask(self._session, RUN.format("epoch = epoch + 1"), id=self._run_id)


async def test_a_limit_with_free_slots_is_found_when_nothing_happens(history: History) -> None:
    async with tampering(history) as session:
        await ask(session, "UPDATE redrive.limits SET maximum = 2")
        assert (await verify(session)).sound, "it is held for a moment only"
        await ask(session, RUN.format(LOST_IN_TIME), id=history.runs["limited"])
        verdict = await verify(session, clock=VirtualClock())
        assert found(verdict) == {("I6", "limit:task:alone_at_work")}
        assert f"still holds run {history.runs['limited']}" in texts(verdict)
        assert (await verify(session, clock=_Busy(session, history.runs["limited"]))).sound


@pytest.mark.parametrize(
    ("run", "change", "option"),
    [
        ("leased", "leased_until = 1", "leeway"),
        ("flaky", "attempt_started_at = attempt_started_at - 1000", "tolerance"),
    ],
)
async def test_what_is_allowed_can_be_a_timedelta(
    history: History, run: str, change: str, option: str
) -> None:
    century: dict[str, Any] = {option: timedelta(days=36_500)}
    async with tampering(history) as session:
        await ask(session, RUN.format(change), id=history.runs[run])
        assert not (await verify(session)).sound
        verdict = await verify(session, **century)
    assert verdict.sound, str(verdict)


async def test_what_has_not_ended_is_found_when_everything_should_have(history: History) -> None:
    verdict = await verify(parts_of(history.app).database, settled=True)
    waiting = ("future", "ready", "first", "second", "fading", "deferred", "midway")
    live = (*waiting, "leased", "limited", "broken")
    assert found(verdict) == {("I6", history.runs[name]) for name in live}
    assert "It has not finished: it is RUNNING, and its place is 'leased'." in texts(verdict)


async def test_starts_are_held_against_what_a_witness_has_seen(history: History) -> None:
    single, flaky = history.runs["single"], history.runs["flaky"]
    witness = Witness(acknowledged=[single, "lost"], refused=[flaky, "never"])
    verdict = await verify(parts_of(history.app).database, witness=witness)
    assert found(verdict) == {("I1", "lost"), ("I1", flaky)}
    assert verdict.checked["I1"] == 4
    assert verdict.checked["I2"] == 0


async def test_effects_are_held_against_what_a_witness_has_seen(history: History) -> None:
    twice, missing = "order-7:0", f"{history.runs['single']}:0"
    effects = {**history.effects, twice: 2, "nobody:0": 1}
    del effects[missing]
    verdict = await verify(parts_of(history.app).database, witness=Witness(effects=effects))
    assert found(verdict) == {("I2", twice), ("I2", missing), ("I2", "nobody:0")}
    assert "The side effect of this step was accepted 2 times." in texts(verdict)


async def test_only_so_many_findings_are_listed(history: History) -> None:
    async with tampering(history) as session:
        await ask(session, "UPDATE redrive.runs SET result = NULL WHERE state = 'SUCCESS'")
        verdict = await verify(session, most=3)
        whole = await verify(session)
    assert len(verdict.findings) == 3
    assert "Broken promises: I10 (at least 4)." in str(verdict)
    assert f"I10 ({len(whole.findings)})" in str(whole)
    assert len(whole.findings) > 4
