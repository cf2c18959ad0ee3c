"""Bulk replays: planned, started carefully, stopped when they don't help; no replay is lost or duplicated."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from tests.engine.workbench import EventCollector, bench, new_app, seamed, sql

from redrive import Backoff, BreakerPolicy, FinalError, RetryPolicy
from redrive.app import Redrive
from redrive.engine.enqueue import DEFAULT_ORG
from redrive.errors import (
    DriftError,
    InvalidValueError,
    NotFoundError,
    NumberDriftError,
    StoreUnavailableError,
    TransitionError,
)
from redrive.failures.bulk_replay_driver import IDLE_SECONDS, BulkReplayDriver
from redrive.failures.bulk_replays import BulkReplays
from redrive.failures.service import Failures
from redrive.model.breaker import BreakerState
from redrive.model.event import OperationChanged, ReplayRequested
from redrive.model.fact import CountedFact, fact
from redrive.model.operation import Plan
from redrive.model.replay import OperationState, ReplayState
from redrive.model.run import RunState
from redrive.parts import parts_of, rewire
from redrive.policy.codec import decode
from redrive.policy.curve import Immediate
from redrive.policy.policy_json import policy_from_json
from redrive.policy.rollout import POLL_SECONDS
from redrive.store import bulk_replays as stored
from redrive.testing import Harness
from redrive.verify import verify
from redrive.words.fact import text_of
from redrive.words.state import status

TWICE = RetryPolicy(name="twice", max_attempts=2, backoff=Backoff(Immediate()))


def counted(facts: tuple[CountedFact, ...]) -> dict[str, int]:
    return {text_of(fact): items for fact, items in facts}


class Thirst(FinalError):
    """A different failure from the one that all start with."""


class Mill:
    """Tasks that fail while `broken` is set; it is the message of the failure."""

    def __init__(self, **options: Any) -> None:
        self.app: Redrive = new_app()
        self.emitted = EventCollector(self.app)
        self.broken = "no flour"
        self.still_broken: set[int] = set()
        self.executed: list[int] = []
        self.grind = self.app.task(self._grind, name="grind", max_attempts=1, **options)  # type: ignore[call-overload]

    async def _grind(self, number: int) -> int:
        self.executed.append(number)
        if self.broken or number in self.still_broken:
            raise (Thirst if self.broken == "no water" else FinalError)(self.broken)
        return number

    async def failed(self, test: Harness, number: int, **options: Any) -> Failures:
        """Create this many dead letters, and repair the mill."""
        await self.app.start_many(self.grind, range(number), **options)
        await test.drain()
        self.broken = ""
        self.executed.clear()
        return self.app.failures(org=options.get("org", "default"), by="ana")

    @property
    def driver(self) -> BulkReplayDriver:
        return BulkReplayDriver(
            parts_of(self.app).store, parts_of(self.app).breakers, parts_of(self.app).event_bus
        )

    async def letters(self) -> list[str]:
        """Return the ids of the letters, the oldest first."""
        return [row[0] for row in await sql(self.app, "SELECT id FROM dead_letters ORDER BY created_at, id")]


async def settled(mill: Mill, test: Harness, operations: BulkReplays, plan: Plan) -> dict[str, int]:
    """Work until the operation rests and everything started has ended; return the items in each state."""
    for _ in range(1000):
        await test.drain()
        report = await operations.report(plan.operation_id)
        if report.operation.state != "RUNNING" and not report.items[ReplayState.RUNNING]:
            return {str(state): number for state, number in report.items.items() if number}
        test.clock.advance(POLL_SECONDS)
    raise AssertionError("it does not come to rest")


async def sound(app: Redrive) -> None:
    verdict = await verify(parts_of(app).database)
    assert verdict.sound, str(verdict)
    audit = await app.failures().audit.verify()
    assert audit.sound, str(audit)


async def touched(failures: Failures, letter_id: str) -> None:
    """Resolve and reopen a letter: it has changed, and is open again."""
    await failures.resolve(letter_id, "by hand")
    await failures.reopen(letter_id, "not quite")


async def actions(failures: Failures, operation_id: str) -> list[tuple[str, str]]:
    page = await failures.audit.list(subject=operation_id)
    return [(each.action, each.actor) for each in reversed(page.entries)]


# Planning


async def test_a_plan_describes_the_replay_and_starts_nothing() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 3)
        plan = await failures.plans.create(query="is:open", reason="flour is back")
        await test.drain()

        assert (plan.selected, plan.will_run, plan.skipped, plan.refused) == (3, 3, 0, ())
        assert (plan.steps, plan.results_reused, plan.waits) == ({"grind": 3}, 0, ())
        assert (plan.may_repeat_effects, plan.repeat_under_key) == (0, 3)
        assert mill.executed == []
        operation = await failures.plans.view(plan.operation_id)
        assert (operation.state, operation.reason, operation.planned_by) == (
            "PLANNED",
            "flour is back",
            "ana",
        )
        assert await actions(failures, plan.operation_id) == [("operation.planned", "ana")]
        assert [each.after for each in mill.emitted.of(OperationChanged)] == ["PLANNED"]
        await sound(mill.app)


async def test_a_plan_of_a_workflow_names_the_steps_that_run_and_the_results_that_are_reused() -> None:
    app = new_app()
    broken = {"second"}

    def step(name: str) -> Any:
        async def run() -> str:
            if name in broken:
                raise FinalError(name)
            return name

        return app.task(run, name=name)  # type: ignore[call-overload]

    flow = app.workflow("flow", [step(name) for name in ("first", "second", "third")])
    async with bench(app) as test:
        await app.start_many(flow, [None] * 4)
        await test.drain()
        operations = app.failures().plans
        whole = await operations.create(query="is:open")
        alone = await operations.create(query="is:open", mode="STEP_ONLY")

        assert (whole.steps, whole.results_reused) == ({"second": 4, "third": 4}, 4)
        assert (alone.steps, alone.results_reused) == ({"second": 4}, 4)
        assert whole.digest != alone.digest
        broken.clear()
        await operations.start(alone.operation_id)
        await test.drain()
        assert await parts_of(app).store.runs.count_by_state(DEFAULT_ORG) == {RunState.PARTIAL: 4}
        assert (await operations.view(alone.operation_id)).state == "DONE"
        await sound(app)


async def test_the_digest_is_the_same_for_the_same_and_another_when_something_has_changed() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 3)
        letters = await mill.letters()
        first = await failures.plans.create(query="is:open")
        second = await failures.plans.create(ids=list(reversed(letters)), reason="another way to name them")
        test.clock.advance(1.0)
        await touched(failures, letters[0])
        third = await failures.plans.create(query="is:open")

        assert first.digest == second.digest != third.digest
        assert first.operation_id != second.operation_id


async def test_a_group_is_planned_by_its_live_dead_letters() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 3)
        mill.broken = "no water"
        await mill.app.start(mill.grind, 99)
        await test.drain()
        [dry] = [line for line in (await failures.groups.list()).lines if line.letters.open == 1]
        [resolved, *_] = await mill.letters()
        await failures.resolve(resolved, "done by hand")
        groups = {line.group.fingerprint for line in (await failures.groups.list()).lines}
        [other] = groups - {dry.group.fingerprint}

        assert (await failures.plans.create(group=dry.group.fingerprint)).will_run == 1
        plan = await failures.plans.create(group=other)
        assert (plan.selected, plan.will_run) == (2, 2)
        assert (await failures.plans.create(group=other.removeprefix("v1:")[:12])).selected == 2
        with pytest.raises(NotFoundError):
            await failures.plans.create(group="v1:unknown")


async def test_letters_that_cannot_be_replayed_are_refused_in_the_plan() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 4)
        replaying, closed, cancelled, fine = await mill.letters()
        await failures.replay(replaying)
        await failures.ignore(closed, "not needed")
        await sql(
            mill.app,
            "UPDATE runs SET state = 'CANCELLED' WHERE id = (SELECT run_id FROM dead_letters WHERE id = ?1)",
            cancelled,
        )
        plan = await failures.plans.create(ids=[replaying, closed, cancelled, fine, fine])

        assert (plan.selected, plan.will_run) == (4, 1)
        assert counted(plan.refused) == {
            "it is being replayed already; wait for the outcome": 1,
            "it is ignored; reopen it first": 1,
            "its run was cancelled": 1,
        }
        refused = await failures.plans.items(plan.operation_id, state="REFUSED")
        assert [each.letter_id for each in refused.items] == [replaying, closed, cancelled]


async def test_letters_that_a_replay_in_progress_will_reach_are_refused_in_the_plan() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 4)
        letters = await mill.letters()
        first = await failures.plans.create(ids=letters[:2])
        assert (await failures.plans.create(ids=letters)).will_run == 4, "nothing was started yet"
        await failures.plans.start(first.operation_id)
        await failures.plans.pause(first.operation_id)
        [failure] = {each.fingerprint for each in await failures.lines(letters)}
        assert await failures.plans.reaching(failure) == {first.operation_id: 2}
        plan = await failures.plans.create(ids=letters)

        assert (plan.selected, plan.will_run) == (4, 2)
        [refused] = plan.refused
        assert refused == (fact("in_other_replay", operation=first.operation_id), 2)
        await failures.plans.cancel(first.operation_id)
        assert (await failures.plans.create(ids=letters)).will_run == 4
        assert await failures.plans.reaching(failure) == {}


async def test_letters_that_may_repeat_an_unsafe_effect_are_counted_and_left_out_on_request() -> None:
    mill = Mill(effect="unsafe")
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 3)
        [first, *_] = await mill.letters()
        await sql(mill.app, "UPDATE dead_letters SET may_have_executed = (id <> ?1)", first)

        careless = await failures.plans.create(query="is:open")
        careful = await failures.plans.create(query="is:open", exclude_unsafe=True)

        assert (careless.will_run, careless.may_repeat_effects, careless.skipped) == (3, 2, 0)
        assert (careful.will_run, careful.may_repeat_effects, careful.skipped) == (1, 0, 2)
        assert careful.refused == ()
        await failures.plans.start(careful.operation_id)
        assert await settled(mill, test, failures.plans, careful) == {"SUCCEEDED": 1, "SKIPPED": 2}
        assert len(mill.executed) == 1


async def test_the_plan_names_the_dependencies_of_items() -> None:
    mill = Mill(breaker="bank", queue="mills")
    mill.app.breaker("bank", BreakerPolicy())
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 3)
        needed, later, _ = await mill.letters()
        await failures.link(later, needed)
        await mill.app.queues().pause("mills")
        await mill.app.breakers().force("bank", "OPEN", reason="maintenance")

        plan = await failures.plans.create(query="is:open")

        assert counted(plan.waits) == {
            "the breaker 'bank' to close": 3,
            "the queue 'mills', which is paused": 3,
            f"the dead letter {needed} to be resolved": 1,
        }
        assert plan.breakers == ("bank",)


async def test_an_expected_number_must_be_the_number_affected() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 3)
        assert (await failures.plans.create(query="is:open", expect=3)).will_run == 3
        with pytest.raises(DriftError, match=r"3 of 3 .* 2 were expected"):
            await failures.plans.create(query="is:open", expect=2)
        assert len((await failures.plans.list()).operations) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"query": "is:open", "group": "v1:abc"},
        {"query": "is:opne"},
        {"query": "is:open", "mode": "BACKWARDS"},
        {"query": "is:open", "canary": -1},
        {"query": "is:open", "canarry": 1},
        {"query": "is:open", "override": "twice"},
        {"query": "is:open", "reason": "\0"},
        {"ids": "abc"},
        {"ids": [1]},
    ],
    ids=str,
)
async def test_a_wrong_request_is_refused_and_nothing_is_planned(wrong: dict[str, Any]) -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 1)
        with pytest.raises(InvalidValueError):
            await failures.plans.create(**wrong)
        assert (await failures.plans.list()).operations == ()


async def test_an_id_that_does_not_exist_refuses_the_whole_plan() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 1)
        with pytest.raises(NotFoundError, match="found no dead letter 'nobody'"):
            await failures.plans.create(ids=[*await mill.letters(), "nobody"])
        assert await sql(mill.app, "SELECT count(*) FROM replays") == [(0,)]


async def test_an_operation_has_at_most_a_hundred_thousand_items() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 1)
        columns = [row[1] for row in await sql(mill.app, "PRAGMA table_info(dead_letters)")]
        names = ", ".join(name for name in columns if name not in ("id", "run_id"))
        numbers = (
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100000)"
        )
        copies = f"SELECT n, n, {names} FROM dead_letters CROSS JOIN numbers"
        await sql(mill.app, f"{numbers} INSERT INTO dead_letters (id, run_id, {names}) {copies}")

        with pytest.raises(InvalidValueError, match="more than 100,000 dead letters"):
            await failures.plans.create(query="is:open")
        with pytest.raises(InvalidValueError, match="the number of ids"):
            await failures.plans.create(ids=["x"] * 100_001)
        assert await sql(mill.app, "SELECT count(*) FROM replays") == [(0,)]


# Canary, ramp, finish


async def test_all_items_are_replayed_and_the_operation_is_done() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 40)
        plan = await failures.plans.create(query="is:open", reason="flour is back")
        await failures.plans.start(plan.operation_id)

        assert await settled(mill, test, failures.plans, plan) == {"SUCCEEDED": 40}
        assert sorted(mill.executed) == list(range(40))
        assert await parts_of(mill.app).store.runs.count_by_state(DEFAULT_ORG) == {RunState.SUCCESS: 40}
        assert await sql(mill.app, "SELECT state, count(*) FROM dead_letters GROUP BY state") == [
            ("RESOLVED", 40)
        ]
        report = await failures.plans.report(plan.operation_id)
        assert (report.failure_rate, report.failures, report.notes) == (0.0, {}, ())
        assert report.operation.state == "DONE"
        assert report.operation.ended_at is not None
        assert report.plan == plan
        assert report.seconds is not None
        assert await actions(failures, plan.operation_id) == [
            ("operation.planned", "ana"),
            ("operation.started", "ana"),
            ("operation.finished", "redrive"),
        ]
        changes = [(each.before, each.after) for each in mill.emitted.of(OperationChanged)]
        assert changes == [("", "PLANNED"), ("PLANNED", "RUNNING"), ("RUNNING", "DONE")]
        requested = mill.emitted.of(ReplayRequested)
        assert Counter(each.by for each in requested) == {"ana": 40}
        await sound(mill.app)


async def test_only_the_canary_starts_before_it_has_finished() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 30)
        plan = await failures.plans.create(query="is:open", canary=4)
        await failures.plans.start(plan.operation_id)

        assert await mill.driver.tick() == 0.0
        assert await mill.driver.tick() == POLL_SECONDS
        report = await failures.plans.report(plan.operation_id)
        assert (report.items[ReplayState.RUNNING], report.items[ReplayState.PLANNED]) == (4, 26)
        assert report.operation.ramped_at is None
        await test.drain()
        assert (await failures.plans.view(plan.operation_id)).ramped_at is not None


async def test_a_failed_canary_stops_the_operation_and_the_others_are_left_alone() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 50)
        mill.broken = "no water"
        plan = await failures.plans.create(query="is:open", canary=4)
        await failures.plans.start(plan.operation_id)

        assert await settled(mill, test, failures.plans, plan) == {"FAILED": 4, "PLANNED": 46}
        operation = await failures.plans.view(plan.operation_id)
        assert operation.state == "STOPPED"
        assert operation.stopped_because == fact("too_many_failed", failed=4, finished=4, limit=0.2)
        assert len(mill.executed) == 4
        report = await failures.plans.report(plan.operation_id)
        assert report.failure_rate == 1.0
        assert list(report.failures.values()) == [4]
        [stopped] = [each for each in mill.emitted.of(OperationChanged) if each.after == "STOPPED"]
        assert stopped.reason == "4 of 4 items failed: 100%, more than 20%"
        assert ("operation.stopped", "redrive") in await actions(failures, plan.operation_id)
        await sound(mill.app)


async def test_the_same_failures_again_stop_it_even_when_most_succeed() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 300)
        mill.still_broken = {100, 101, 102}
        plan = await failures.plans.create(query="is:open", same_failures=3, rate=100.0)
        await failures.plans.start(plan.operation_id)

        states = await settled(mill, test, failures.plans, plan)

        operation = await failures.plans.view(plan.operation_id)
        assert operation.state == "STOPPED"
        assert operation.stopped_because == fact("same_failures", items=3)
        assert (states["FAILED"], states["SUCCEEDED"] > 90, states["PLANNED"] > 100) == (3, True, True)


async def test_other_failures_than_before_are_judged_by_their_rate_alone() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 12)
        mill.broken = "no water"
        plan = await failures.plans.create(query="is:open", same_failures=1, failure_rate=1.0)
        await failures.plans.start(plan.operation_id)

        assert await settled(mill, test, failures.plans, plan) == {"FAILED": 12}
        assert (await failures.plans.view(plan.operation_id)).state == "DONE"


async def test_an_open_breaker_stops_it_before_anything_is_started() -> None:
    mill = Mill(breaker="bank")
    mill.app.breaker("bank", BreakerPolicy())
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 5)
        await mill.app.breakers().force("bank", BreakerState.OPEN, reason="maintenance")
        plan = await failures.plans.create(query="is:open")
        await failures.plans.start(plan.operation_id)

        assert await settled(mill, test, failures.plans, plan) == {"PLANNED": 5}
        operation = await failures.plans.view(plan.operation_id)
        assert operation.stopped_because == fact("breaker_opened", breaker="bank")
        await mill.app.breakers().force("bank", BreakerState.CLOSED, reason="over")
        await failures.plans.resume(plan.operation_id)
        assert await settled(mill, test, failures.plans, plan) == {"SUCCEEDED": 5}


async def test_a_breaker_that_its_items_do_not_depend_on_does_not_stop_it() -> None:
    mill = Mill(breaker="bank")
    mill.app.breaker("bank", BreakerPolicy())
    mill.app.breaker("mail", BreakerPolicy())
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 3)
        await mill.app.breakers().force("mail", BreakerState.OPEN, reason="maintenance")
        plan = await failures.plans.create(query="is:open")
        await failures.plans.start(plan.operation_id)

        assert await settled(mill, test, failures.plans, plan) == {"SUCCEEDED": 3}


async def test_items_are_started_at_the_rate_that_was_asked_for() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 22)
        plan = await failures.plans.create(query="is:open", canary=2, rate=2.0)
        await failures.plans.start(plan.operation_id)
        await test.drain()
        assert len(mill.executed) == 2
        seen = []
        for _ in range(10):
            test.clock.advance(1.0)
            await test.drain()
            seen.append(len(mill.executed))

        assert seen == [4, 6, 8, 10, 12, 14, 16, 18, 20, 22]
        assert (await failures.plans.view(plan.operation_id)).state == "DONE"


async def test_a_plan_without_items_is_done_as_soon_as_it_is_started() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 1)
        plan = await failures.plans.create(query="is:resolved")
        operation = await failures.plans.start(plan.operation_id)

        assert (plan.selected, operation.state) == (0, "DONE")
        assert [each for each, _ in await actions(failures, plan.operation_id)] == [
            "operation.planned",
            "operation.started",
            "operation.finished",
        ]
        assert await mill.driver.tick() == IDLE_SECONDS


async def test_the_retry_policy_of_the_replays_can_be_another_one() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 2)
        await sql(mill.app, "UPDATE dead_letters SET effect = 'none'")
        mill.broken = "no flour"
        plan = await failures.plans.create(query="is:open", retry=TWICE)
        await failures.plans.start(plan.operation_id)
        await settled(mill, test, failures.plans, plan)

        overrides = await sql(mill.app, "SELECT DISTINCT policy_override FROM replays")
        assert overrides == await sql(mill.app, "SELECT DISTINCT replay_override FROM dead_letters")
        assert '"twice"' in overrides[0][0]


async def test_12_a_partial_override_is_merged_with_the_policy_of_each_items_step() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 2)
        await sql(mill.app, "UPDATE dead_letters SET effect = 'none'")
        mill.broken = "no flour"
        [[body]] = await sql(mill.app, "SELECT body FROM definitions")
        definition: Any = decode(body)
        own = policy_from_json(definition["steps"][0]["retry"])
        plan = await failures.plans.create(query="is:open", retry={"max_retries": 1})
        await failures.plans.start(plan.operation_id)
        await settled(mill, test, failures.plans, plan)

        [[stored]] = await sql(mill.app, "SELECT DISTINCT replay_override FROM dead_letters")
        assert policy_from_json(decode(stored)) == replace(own, name="override", max_attempts=2)
        operation = await failures.plans.view(plan.operation_id)
        assert operation.policy_override == {"max_retries": 1}


# Dependencies (M12)


async def test_a_dead_letter_is_replayed_after_the_letter_it_depends_on() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 3)
        one, two, three = await mill.letters()
        await failures.link(one, two)
        await failures.link(two, three)
        plan = await failures.plans.create(query="is:open")
        await failures.plans.start(plan.operation_id)

        assert await settled(mill, test, failures.plans, plan) == {"SUCCEEDED": 3}
        assert mill.executed == [2, 1, 0]


async def test_letters_that_depend_on_a_failure_are_refused_at_the_end() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 6)
        letters = await mill.letters()
        await failures.link(letters[0], letters[5])
        mill.still_broken = {5}
        plan = await failures.plans.create(query="is:open")
        await failures.plans.start(plan.operation_id)

        assert await settled(mill, test, failures.plans, plan) == {"SUCCEEDED": 4, "FAILED": 1, "REFUSED": 1}
        report = await failures.plans.report(plan.operation_id)
        assert report.operation.state == "DONE"
        assert counted(report.notes) == {"it depends on a dead letter that is not resolved": 1}


# Drift


async def test_drift_between_plan_and_start_is_a_conflict_with_a_diff() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 5)
        resolved, reopened, *_ = await mill.letters()
        plan = await failures.plans.create(query="is:open")
        test.clock.advance(60.0)
        await failures.resolve(resolved, "by hand")
        await touched(failures, reopened)

        with pytest.raises(DriftError, match="2 dead letters have changed") as conflict:
            await failures.plans.start(plan.operation_id)

        assert conflict.value.number == 2
        assert [(each.letter_id, each.change) for each in conflict.value.changes] == [
            (resolved, fact("letter_closed", state="RESOLVED")),
            (reopened, fact("changed_since")),
        ]
        await test.drain()
        assert mill.executed == []
        assert (await failures.plans.view(plan.operation_id)).state == "PLANNED"
        assert await actions(failures, plan.operation_id) == [("operation.planned", "ana")]


async def drifting(mill: Mill, test: Harness, number: int) -> tuple[Failures, Plan, str]:
    """Plan a bulk replay, and resolve one of its letters afterwards."""
    failures = await mill.failed(test, number)
    [resolved, *_] = await mill.letters()
    plan = await failures.plans.create(query="is:open")
    assert await failures.plans.drift(plan.operation_id) == (number, 0, ())
    await failures.resolve(resolved, "by hand")
    return failures, plan, resolved


async def test_drift_can_be_accepted_and_changed_letters_are_left_out() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures, plan, resolved = await drifting(mill, test, 5)
        await failures.plans.start(plan.operation_id, accept_drift=True)

        assert await settled(mill, test, failures.plans, plan) == {"SUCCEEDED": 4, "REFUSED": 1}
        [refused] = (await failures.plans.items(plan.operation_id, state="REFUSED")).items
        assert (refused.letter_id, refused.note) == (resolved, fact("letter_closed", state="RESOLVED"))


async def test_changes_can_be_read_before_the_start() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures, plan, resolved = await drifting(mill, test, 3)
        found = await failures.plans.drift(plan.operation_id)
        assert (found.will_run, found.number) == (2, 1)
        assert [(each.letter_id, each.change) for each in found.changes] == [
            (resolved, fact("letter_closed", state="RESOLVED"))
        ]
        assert (await failures.plans.view(plan.operation_id)).state == "PLANNED"


async def test_another_number_than_was_expected_starts_nothing() -> None:
    """The number shown is the number affected (UI rule 3)."""
    mill = Mill()
    async with bench(mill.app) as test:
        failures, plan, _ = await drifting(mill, test, 3)
        with pytest.raises(NumberDriftError, match="2 dead letters would be replayed, 3 were expected") as no:
            await failures.plans.start(plan.operation_id, accept_drift=True, expect=3)
        assert no.value.number == 2
        assert (await failures.plans.view(plan.operation_id)).state == "PLANNED"
        assert (await failures.plans.report(plan.operation_id)).items["REFUSED"] == 0
        await failures.plans.start(plan.operation_id, accept_drift=True, expect=2)
        assert await settled(mill, test, failures.plans, plan) == {"SUCCEEDED": 2, "REFUSED": 1}


async def test_letters_that_another_operation_will_reach_have_drifted() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 3)
        [_, *others] = await mill.letters()
        first = await failures.plans.create(ids=others)
        second = await failures.plans.create(query="is:open")
        await failures.plans.start(first.operation_id)
        found = await failures.plans.drift(second.operation_id)
        assert (found.will_run, found.number) == (1, 2)
        assert {change.letter_id for change in found.changes} == set(others)
        assert all(
            change.change == fact("in_other_replay", operation=first.operation_id) for change in found.changes
        )
        with pytest.raises(DriftError):
            await failures.plans.start(second.operation_id)
        await failures.plans.start(second.operation_id, accept_drift=True, expect=1)
        assert await settled(mill, test, failures.plans, second) == {"SUCCEEDED": 1, "REFUSED": 2}
        assert await settled(mill, test, failures.plans, first) == {"SUCCEEDED": 2}


@pytest.mark.parametrize("expect", ["1", [1], True, 1.0, -1, 1_000_000])
async def test_a_number_that_is_none(expect: Any) -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 1)
        plan = await failures.plans.create(query="is:open")
        with pytest.raises(InvalidValueError, match="expect"):
            await failures.plans.start(plan.operation_id, expect=expect)


async def test_items_that_change_while_the_operation_runs_are_left_out_with_a_note() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 12)
        letters = await mill.letters()
        plan = await failures.plans.create(query="is:open", canary=2)
        await failures.plans.start(plan.operation_id)
        await mill.driver.tick()
        test.clock.advance(1.0)
        await failures.archive(letters[7], "old")
        await failures.replay(letters[8])
        await touched(failures, letters[9])

        assert await settled(mill, test, failures.plans, plan) == {"SUCCEEDED": 9, "REFUSED": 3}
        refused = (await failures.plans.items(plan.operation_id, state="REFUSED")).items
        assert [each.letter_id for each in refused] == letters[7:10]
        assert Counter(mill.executed).most_common(1)[0][1] == 1
        await sound(mill.app)


async def test_two_operations_over_the_same_dead_letters_replay_each_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both start at the same moment, and neither has seen the other."""
    mill = Mill()
    monkeypatch.setattr(
        stored.BulkReplayStore,
        "blocked",
        lambda operations, session, key, _org: operations.obstacles(session, key),
    )
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 30)
        plans = [await failures.plans.create(query="is:open", canary=0) for _ in range(2)]
        for plan in plans:
            await failures.plans.start(plan.operation_id)
        counted = [await settled(mill, test, failures.plans, plan) for plan in plans]

        assert sum(each.get("SUCCEEDED", 0) for each in counted) == 30
        assert sum(each.get("REFUSED", 0) for each in counted) == 30
        assert sorted(mill.executed) == list(range(30))


# Pausing, resuming, cancelling


async def test_a_paused_operation_starts_nothing_and_a_resumed_one_continues() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 20)
        plan = await failures.plans.create(query="is:open", canary=5)
        await failures.plans.start(plan.operation_id)
        await mill.driver.tick()
        await failures.plans.pause(plan.operation_id, "lunch")
        await test.drain()
        assert len(mill.executed) == 5
        assert await mill.driver.tick() == IDLE_SECONDS

        await failures.plans.resume(plan.operation_id, "back")
        assert await settled(mill, test, failures.plans, plan) == {"SUCCEEDED": 20}
        assert [each for each, _ in await actions(failures, plan.operation_id)][2:4] == [
            "operation.paused",
            "operation.resumed",
        ]


async def test_cancelling_finishes_items_in_progress_and_starts_no_more() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 20)
        plan = await failures.plans.create(query="is:open", canary=5)
        await failures.plans.start(plan.operation_id)
        await mill.driver.tick()
        operation = await failures.plans.cancel(plan.operation_id, "wrong ones")

        assert operation.state == "CANCELLED"
        assert await settled(mill, test, failures.plans, plan) == {"SUCCEEDED": 5, "CANCELLED": 15}
        assert len(mill.executed) == 5
        report = await failures.plans.report(plan.operation_id)
        assert report.failure_rate == 0.0


async def test_a_resumed_operation_begins_with_a_canary_again_and_its_failures_are_pardoned() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 30)
        mill.broken = "no water"
        plan = await failures.plans.create(query="is:open", canary=4)
        await failures.plans.start(plan.operation_id)
        assert await settled(mill, test, failures.plans, plan) == {"FAILED": 4, "PLANNED": 26}
        await failures.plans.resume(plan.operation_id)
        assert await settled(mill, test, failures.plans, plan) == {"FAILED": 8, "PLANNED": 22}
        mill.broken = ""
        operation = await failures.plans.resume(plan.operation_id, "water is back")

        assert (operation.stopped_because, operation.ramped_at) == (None, None)
        assert await settled(mill, test, failures.plans, plan) == {"FAILED": 8, "SUCCEEDED": 22}
        assert (await failures.plans.view(plan.operation_id)).state == "DONE"


async def test_a_replay_that_stopped_in_its_ramp_starts_with_a_canary_again_too() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 40)
        mill.still_broken = {20, 21, 22}
        plan = await failures.plans.create(query="is:open", canary=3, same_failures=3, rate=5.0)
        await failures.plans.start(plan.operation_id)
        await settled(mill, test, failures.plans, plan)
        stopped = await failures.plans.view(plan.operation_id)
        assert (stopped.state, stopped.ramped_at is None) == ("STOPPED", False)
        await failures.plans.resume(plan.operation_id)
        assert await mill.driver.tick() == 0.0

        assert (await failures.plans.view(plan.operation_id)).released == stopped.released + 3
        assert await mill.driver.tick() == POLL_SECONDS
        assert (await settled(mill, test, failures.plans, plan))["FAILED"] == 3


@pytest.mark.parametrize(
    ("state", "allowed"),
    [
        ("PLANNED", {"start", "cancel"}),
        ("RUNNING", {"pause", "cancel"}),
        ("PAUSED", {"resume", "cancel"}),
        ("STOPPED", {"resume", "cancel"}),
        ("DONE", set()),
        ("CANCELLED", set()),
    ],
)
async def test_changes_that_a_state_does_not_allow_are_refused(state: str, allowed: set[str]) -> None:
    """I10."""
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 1)
        for verb in ("start", "pause", "resume", "cancel"):
            plan = await failures.plans.create(query="is:open")
            await sql(
                mill.app, "UPDATE replay_operations SET state = ?1 WHERE id = ?2", state, plan.operation_id
            )
            act = getattr(failures.plans, verb)
            if verb in allowed:
                assert (await act(plan.operation_id)).state != state
            else:
                with pytest.raises(TransitionError, match=f"is {status(state)}; it can be"):
                    await act(plan.operation_id)


async def test_another_org_sees_and_does_nothing() -> None:
    """W13: a foreign id does not exist."""
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 3)
        letters = await mill.letters()
        plan = await failures.plans.create(query="is:open")
        stranger = mill.app.failures(org="other", by="eve").plans

        for act in (stranger.start, stranger.pause, stranger.cancel, stranger.report, stranger.items):
            with pytest.raises(NotFoundError, match="found no bulk replay"):
                await act(plan.operation_id)
        with pytest.raises(NotFoundError, match="found no dead letter"):
            await stranger.create(ids=letters[:1])
        assert (await stranger.create(query="is:any")).selected == 0
        assert [each.org for each in (await stranger.list()).operations] == ["other"]


async def test_items_and_operations_come_in_pages() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 7)
        plans = []
        for _ in range(3):
            test.clock.advance(1.0)
            plans.append(await failures.plans.create(query="is:open"))
        positions, cursor = [], None
        while True:
            page = await failures.plans.items(plans[0].operation_id, size=3, cursor=cursor)
            positions += [each.position for each in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        first = await failures.plans.list(size=2)
        second = await failures.plans.list(size=2, cursor=first.next_cursor)

        assert positions == [1, 2, 3, 4, 5, 6, 7]
        found = [each.id for each in (*first.operations, *second.operations)]
        assert found == [each.operation_id for each in reversed(plans)]
        assert second.next_cursor is None
        with pytest.raises(InvalidValueError, match="cursor"):
            await failures.plans.items(plans[0].operation_id, cursor="1; DROP TABLE")
        with pytest.raises(NotFoundError):
            await failures.plans.list(cursor="nobody")


async def test_reasons_are_redacted_before_they_are_kept() -> None:
    """W14, I9."""
    mill = Mill()
    secret = "password=hunter2hunter2"
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 1)
        plan = await failures.plans.create(query=f'is:open -"{secret}"', reason=secret)
        await failures.plans.start(plan.operation_id)
        await failures.plans.pause(plan.operation_id, secret)
        await failures.plans.cancel(plan.operation_id, secret)

        for table in ("replay_operations", "replays", "audit"):
            assert "hunter2" not in str(await sql(mill.app, f"SELECT * FROM {table}"))


# Errors and crashes


@pytest.mark.parametrize(
    "statement", ["pick", "restart", "mark_replaying", "insert_entry", "save_head", "save"]
)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_driver_that_dies_in_the_middle_has_done_everything_or_nothing(
    statement: str, after: bool
) -> None:
    """I1, I4: no replay is lost or duplicated, wherever the connection is cut."""
    mill = Mill()
    async with seamed(mill.app) as (test, seam):
        failures = await mill.failed(test, 25)
        plan = await failures.plans.create(query="is:open", canary=3)
        await failures.plans.start(plan.operation_id)
        seam.fail(statement, after=after)
        with pytest.raises(StoreUnavailableError):
            await mill.driver.tick()
        begun = await sql(mill.app, "SELECT count(*) FROM replays WHERE state = 'RUNNING'")
        assert begun == [(3 if after else 0,)]
        assert (await failures.plans.view(plan.operation_id)).released == begun[0][0]

        assert await settled(mill, test, failures.plans, plan) == {"SUCCEEDED": 25}
        assert sorted(mill.executed) == list(range(25))
        assert seam.triggered == [statement]
        await sound(mill.app)


async def test_a_new_process_continues_where_the_old_one_was() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 30)
        plan = await failures.plans.create(query="is:open", canary=5)
        await failures.plans.start(plan.operation_id)
        await mill.driver.tick()
        rewire(mill.app, parts_of(mill.app).database, test.clock, parts_of(mill.app).random)
        failures = mill.app.failures(by="bob")

        assert await settled(mill, test, failures.plans, plan) == {"SUCCEEDED": 30}


async def test_an_unreadable_letter_stops_its_operation_and_no_other() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 6)
        letters = await mill.letters()
        broken = await failures.plans.create(ids=letters[:3])
        fine = await failures.plans.create(ids=letters[3:])
        for plan in (broken, fine):
            await failures.plans.start(plan.operation_id)
        await sql(mill.app, "UPDATE replay_operations SET options = '{}' WHERE id = ?1", broken.operation_id)

        assert await settled(mill, test, failures.plans, fine) == {"SUCCEEDED": 3}
        operation = await failures.plans.view(broken.operation_id)
        assert operation.state == "STOPPED"
        assert operation.stopped_because is not None
        assert operation.stopped_because.code == "unreadable"


async def test_a_run_cancelled_in_the_meantime_is_neither_a_success_nor_a_failure() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 4)
        plan = await failures.plans.create(query="is:open", canary=1, failure_rate=0.0)
        await failures.plans.start(plan.operation_id)
        await mill.driver.tick()
        [running] = (await failures.plans.items(plan.operation_id, state="RUNNING")).items
        await mill.app.run(running.run_id).cancel()

        assert await settled(mill, test, failures.plans, plan) == {"CANCELLED": 1, "SUCCEEDED": 3}
        assert (await failures.plans.view(plan.operation_id)).state == OperationState.DONE


async def test_many_items_take_few_statements() -> None:
    """The number of statements grows with the batches, not with the items."""
    mill = Mill()
    async with seamed(mill.app) as (test, seam):
        failures = await mill.failed(test, 600)
        plan = await failures.plans.create(query="is:open", canary=0)
        await failures.plans.start(plan.operation_id)
        seam.executed.clear()
        while await mill.driver.tick() == 0.0:
            pass

        assert (await failures.plans.view(plan.operation_id)).released == 500
        assert len(seam.executed) < 40


async def test_drivers_side_by_side_begin_everything_once() -> None:
    mill = Mill()
    async with bench(mill.app) as test:
        failures = await mill.failed(test, 60)
        plan = await failures.plans.create(query="is:open", canary=0)
        await failures.plans.start(plan.operation_id)
        await asyncio.gather(*[mill.driver.tick() for _ in range(8)])

        assert await settled(mill, test, failures.plans, plan) == {"SUCCEEDED": 60}
        assert sorted(mill.executed) == list(range(60))
