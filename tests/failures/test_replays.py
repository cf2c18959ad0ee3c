"""Replaying one dead letter (W9, W10): what executes, what is reused, rejected or kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.engine.workbench import EventCollector, Seam, bench, new_app, settle, sql

from redrive import FinalError, RetryableError
from redrive.app import Redrive
from redrive.dead_letter_queue import DeadLetterQueue
from redrive.engine.context import Context
from redrive.engine.handle import RunHandle
from redrive.errors import InvalidValueError, NotFoundError, PayloadError, ReplayRefusedError
from redrive.model.dead_letter import DeadLetter
from redrive.model.event import DeadLetterChanged, ReplayEnded, ReplayRequested, StepDied
from redrive.model.fact import fact
from redrive.model.replay import Mode
from redrive.model.run import Cancellation, RunState
from redrive.parts import parts_of, rewire
from redrive.policy import Backoff, RetryPolicy
from redrive.policy.codec import decode
from redrive.policy.curve import Exponential, Immediate
from redrive.policy.presets import GATEWAY
from redrive.testing import Harness, in_memory
from redrive.verify import verify

TWICE = RetryPolicy(name="twice", max_attempts=2, backoff=Backoff(Immediate()))


class Shop:
    """A workflow of three steps, each of which fails while the test wants it to."""

    def __init__(self) -> None:
        self.app = new_app()
        self.broken: set[str] = set()
        self.executed: list[tuple[str, Any]] = []
        self.keys: list[str] = []
        for name in ("reserve", "charge", "ship"):
            self._task(name)
        tasks = parts_of(self.app).registry.tasks
        self.checkout = self.app.workflow("checkout", [tasks[name] for name in ("reserve", "charge", "ship")])

    def _task(self, name: str) -> None:
        async def step(value: int, context: Context) -> int:
            self.executed.append((name, value))
            self.keys.append(context.idempotency_key)
            if name in self.broken:
                raise FinalError(f"{name} is broken")
            return value + 1

        self.app.task(step, name=name)  # type: ignore[call-overload]

    async def failed(self, step: str, value: int = 1) -> tuple[RunHandle[Any], DeadLetter]:
        self.broken.add(step)
        run = await self.app.start(self.checkout, value)
        await run.wait()
        self.broken.clear()
        self.executed.clear()
        letter = await run.dead_letter()
        assert letter is not None
        return run, letter


async def sound(app: Redrive) -> None:
    verdict = await verify(parts_of(app).database)
    assert verdict.sound, str(verdict)
    audit = await app.failures().audit.verify()
    assert audit.sound, str(audit)


async def letter_of(run: RunHandle[Any]) -> DeadLetter:
    letter = await run.dead_letter()
    assert letter is not None
    return letter


async def test_a_run_continues_from_the_failed_step_to_its_end() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, letter = await shop.failed("charge")
        failures = shop.app.failures(by="ana")
        replay = await failures.replay(letter.id, reason="the gateway is back")
        assert (replay.state, replay.mode, replay.requested_by) == ("RUNNING", "FROM_STEP", "ana")
        assert (await letter_of(run)).state == "REPLAYING"
        assert await run.result() == 4
        assert shop.executed == [("charge", 2), ("ship", 3)]
        closed = await letter_of(run)
        assert (closed.state, closed.resolved_by, closed.resolution) == ("RESOLVED", "ana", "replayed")
        assert (closed.replay_count, closed.last_replayed_by) == (1, "ana")
        [ended] = await failures.replays.list(letter.id)
        assert (ended.state, ended.reason) == ("SUCCEEDED", "the gateway is back")
        await sound(shop.app)


async def test_a_step_replayed_alone_leaves_the_run_partial_when_later_steps_exist_w10() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, letter = await shop.failed("charge")
        await shop.app.failures().replay(letter.id, mode="STEP_ONLY")
        assert await run.wait() is RunState.PARTIAL
        assert shop.executed == [("charge", 2)]
        assert (await letter_of(run)).state == "RESOLVED"
        states = [step.state for step in (await run.history()).steps]
        assert states == ["SUCCESS", "SUCCESS", "PENDING"]
        await sound(shop.app)


async def test_a_last_step_replayed_alone_ends_in_success_w10() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, letter = await shop.failed("ship")
        await shop.app.failures().replay(letter.id, mode=Mode.STEP_ONLY)
        assert await run.wait() is RunState.SUCCESS
        assert await run.result() == 4
        await sound(shop.app)


async def test_a_replay_that_fails_reopens_the_letter_with_the_newest_evidence() -> None:
    shop = Shop()
    async with bench(shop.app):
        emitted = EventCollector(shop.app)
        run, letter = await shop.failed("charge")
        failures = shop.app.failures()
        await failures.replay(letter.id)
        shop.broken.add("charge")
        assert await run.wait() is RunState.DLQ_PENDING
        again = await letter_of(run)
        assert (again.id, again.state, again.attempts, again.replay_count) == (letter.id, "OPEN", 2, 1)
        assert [each.state for each in await failures.replays.list(letter.id)] == ["FAILED"]
        assert [each.number for each in (await run.history()).attempts if each.step_index == 1] == [1, 2]
        assert {each.dlq_id for each in emitted.of(StepDied)} == {letter.id}
        assert [each.state for each in emitted.of(ReplayEnded)] == ["FAILED"]
        assert len(emitted.of(ReplayRequested)) == 1
        await sound(shop.app)


async def test_a_replay_has_its_own_budget_and_policy_override() -> None:
    app = new_app()
    attempts: list[int] = []

    @app.task(retry=TWICE)
    async def flaky(value: int, context: Context) -> int:
        attempts.append(context.attempt)
        raise RetryableError("not yet")

    async with bench(app):
        run = await app.start(flaky, 1)
        await run.wait()
        letter = await letter_of(run)
        failures = app.failures()
        await failures.replay(letter.id)
        await run.wait()
        more = RetryPolicy(name="more", max_attempts=4, backoff=Backoff(Immediate()))
        await failures.replay(letter.id, retry=more)
        await run.wait()
        await failures.replay(letter.id)
        await run.wait()
        assert attempts == [*range(1, 3), *range(3, 5), *range(5, 9), *range(9, 11)]
        assert [each.replay for each in (await run.history()).attempts] == [0, 0, 1, 1, 2, 2, 2, 2, 3, 3]
        await sound(app)


async def test_12_a_partial_override_keeps_the_rest_of_the_steps_policy() -> None:
    """Gap 4: the waits and the categories of the step stay, only the number changes."""
    app = new_app()

    class OddError(Exception): ...

    @app.task(retry=replace(GATEWAY, max_attempts=2, backoff=Backoff(Exponential(60.0))))
    async def odd(value: int) -> int:
        raise OddError("?")

    async with bench(app) as test:
        run = await app.start(odd, 1)
        await run.wait()
        letter = await letter_of(run)
        failures = app.failures()
        begun = test.clock.now()
        await failures.replay(letter.id, retry={"max_retries": 3})
        await run.wait()
        assert [each.replay for each in (await run.history()).attempts] == [0, 0, 1, 1, 1, 1]
        assert test.clock.now() - begun >= 60 + 120 + 240
        with pytest.raises(InvalidValueError, match="a retry policy has no 'retries'"):
            await failures.replay(letter.id, retry={"retries": 3})
        await sound(app)


async def test_going_back_executes_earlier_steps_again_and_keeps_that_they_had_succeeded() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, letter = await shop.failed("ship")
        await shop.app.failures().replay(letter.id, from_step="reserve")
        assert await run.result() == 4
        assert shop.executed == [("reserve", 1), ("charge", 2), ("ship", 3)]
        numbers = [(each.step_index, each.number, each.outcome) for each in (await run.history()).attempts]
        assert numbers == [
            (0, 1, "succeeded"),
            (0, 2, "succeeded"),
            (1, 1, "succeeded"),
            (1, 2, "succeeded"),
            (2, 1, "failed"),
            (2, 2, "succeeded"),
        ]
        assert (await letter_of(run)).state == "RESOLVED"
        await sound(shop.app)


async def live_letters(shop: Shop) -> list[tuple[str, str]]:
    rows = await sql(
        shop.app,
        "SELECT step, state FROM dead_letters WHERE state IN ('OPEN', 'REPLAYING', 'EXHAUSTED') "
        "ORDER BY step_index",
    )
    return [(row[0], row[1]) for row in rows]


async def gone_back(shop: Shop) -> tuple[RunHandle[Any], DeadLetter]:
    """A run whose replay from the first step has failed in an earlier step than before."""
    run, letter = await shop.failed("ship")
    await shop.app.failures().replay(letter.id, from_step=0)
    shop.broken.add("charge")
    await run.wait()
    return run, letter


async def test_12_w9_a_replay_that_fails_in_an_earlier_step_reopens_the_letter() -> None:
    """Both steps have failed, so both have a live dead letter (I7)."""
    shop = Shop()
    async with bench(shop.app):
        run, letter = await gone_back(shop)
        failures = shop.app.failures(by="ana")
        assert await live_letters(shop) == [("charge", "OPEN"), ("ship", "OPEN")]
        again = await failures.view(letter.id)
        assert (again.resolution, again.next_redrive_at, again.replay_count) == (None, None, 1)
        assert (await letter_of(run)).step == "charge"
        told = [entry.action for entry in await failures.audit.about(letter.id)]
        assert told[:2] == ["dead_letter.reopened", "replay.failed"]
        await sound(shop.app)

        shop.broken.clear()
        await failures.replay((await letter_of(run)).id)
        assert await live_letters(shop) == [("charge", "REPLAYING"), ("ship", "REPLAYING")]
        await sound(shop.app)
        assert await run.result() == 4
        assert await live_letters(shop) == []
        resolved = await failures.view(letter.id)
        assert (resolved.state, resolved.resolved_by, resolved.replay_count) == ("RESOLVED", "ana", 1)
        await sound(shop.app)


async def test_12_w9_the_reopened_letter_can_be_replayed_too() -> None:
    """The run continues where it stopped, at the earlier step."""
    shop = Shop()
    async with bench(shop.app):
        run, letter = await gone_back(shop)
        failures = shop.app.failures()
        before = len(shop.executed)
        with pytest.raises(InvalidValueError, match="comes after the failed step 'charge'"):
            await failures.replay(letter.id, from_step="ship")
        for letter_id in (letter.id, (await letter_of(run)).id):
            with pytest.raises(ReplayRefusedError, match="a later step of its run has a dead letter too"):
                await failures.replay(letter_id, "STEP_ONLY")
        shop.broken = {"ship"}
        await failures.replay(letter.id)
        await run.wait()
        assert [step for step, _ in shop.executed[before:]] == ["charge", "ship"]
        assert await live_letters(shop) == [("ship", "OPEN")]
        again = await letter_of(run)
        assert (again.id, again.attempts) == (letter.id, 2)
        await sound(shop.app)
        shop.broken.clear()
        await failures.replay(letter.id)
        assert await run.result() == 4
        await sound(shop.app)


async def test_12_w9_a_later_letter_that_fails_again_in_a_replay_of_the_earlier_one_is_reopened() -> None:
    """I14: its history has no replay of its own, so an entry must say why it is OPEN again (seed 703731)."""
    shop = Shop()
    async with bench(shop.app):
        run, later = await gone_back(shop)
        failures = shop.app.failures()
        earlier = await letter_of(run)
        shop.broken = {"ship"}
        emitted = EventCollector(shop.app)
        await failures.replay(earlier.id)
        await run.wait()
        assert await live_letters(shop) == [("ship", "OPEN")]
        told = [(entry.action, entry.actor) for entry in await failures.audit.about(later.id)]
        assert told[0] == ("dead_letter.reopened", "redrive")
        named = [entry.action for entry in await failures.audit.about(earlier.id)]
        assert named[:2] == ["replay.failed", "dead_letter.resolved"]
        changed = [change for change in emitted.of(DeadLetterChanged) if change.dlq_id == later.id]
        assert (changed[-1].before, changed[-1].after) == ("REPLAYING", "OPEN")
        await sound(shop.app)


async def test_12_w9_closing_the_earlier_letter_leaves_the_later_one_replayable() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, _ = await gone_back(shop)
        failures = shop.app.failures()
        await failures.ignore((await letter_of(run)).id, "known")
        assert await live_letters(shop) == [("ship", "OPEN")]
        await sound(shop.app)
        shop.broken.clear()
        await failures.replay_run(run.id)
        assert await run.result() == 4
        assert await live_letters(shop) == []
        await sound(shop.app)


async def test_12_w9_a_bulk_replay_continues_the_run_at_the_earlier_step() -> None:
    """Even if that step's letter was closed. The given retry policy is merged with that of the step."""
    shop = Shop()
    async with bench(shop.app) as test:
        run, letter = await gone_back(shop)
        failures = shop.app.failures()
        closed = (await letter_of(run)).id
        await failures.archive(closed, "known")
        shop.broken.clear()
        before = len(shop.executed)
        plan = await failures.plans.create(ids=[letter.id, closed], retry={"max_retries": 6})
        assert (plan.will_run, plan.results_reused) == (1, 1)
        await failures.plans.start(plan.operation_id, accept_drift=True)
        await test.advance(60)
        assert await run.result() == 4
        assert [step for step, _ in shop.executed[before:]] == ["charge", "ship"]
        first = next(item for item in (await failures.plans.items(plan.operation_id)).items)
        assert first.policy_override["max_attempts"] == 7
        assert await live_letters(shop) == []
        await sound(shop.app)


async def test_12_w9_a_bulk_replay_of_both_letters_starts_the_run_once() -> None:
    shop = Shop()
    async with bench(shop.app) as test:
        run, letter = await gone_back(shop)
        failures = shop.app.failures()
        shop.broken.clear()
        before = len(shop.executed)
        plan = await failures.plans.create(ids=[letter.id, (await letter_of(run)).id])
        assert plan.will_run == 1
        await failures.plans.start(plan.operation_id)
        await test.advance(60)
        assert await run.result() == 4
        assert [step for step, _ in shop.executed[before:]] == ["charge", "ship"]
        await sound(shop.app)


async def test_12_w9_the_later_letter_can_be_closed_and_reopened_in_the_meantime() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, letter = await gone_back(shop)
        failures = shop.app.failures()
        await failures.ignore(letter.id, "known")
        await failures.reopen(letter.id, "it was not")
        await sound(shop.app)
        await failures.ignore(letter.id, "known")
        await failures.replay((await letter_of(run)).id)
        shop.broken = {"ship"}
        await run.wait()
        assert (await letter_of(run)).id != letter.id
        assert await live_letters(shop) == [("ship", "OPEN")]
        await sound(shop.app)


async def test_12_w9_a_bulk_replay_refuses_to_leave_a_later_letter_behind() -> None:
    shop = Shop()
    async with bench(shop.app) as test:
        run, _ = await gone_back(shop)
        failures = shop.app.failures()
        shop.broken.clear()
        plan = await failures.plans.create(query="is:open step:charge", mode="STEP_ONLY")
        await failures.plans.start(plan.operation_id)
        await test.advance(60)
        [item] = (await failures.plans.items(plan.operation_id)).items
        assert (item.state, item.note) == ("REFUSED", fact("later_step_failed"))
        plan = await failures.plans.create(query="is:open")
        await failures.plans.start(plan.operation_id)
        await test.advance(60)
        assert await run.result() == 4
        assert await live_letters(shop) == []
        await sound(shop.app)


async def test_12_w9_an_exhausted_letter_is_exhausted_again_and_keeps_its_count() -> None:
    """I3: a replay from an earlier step does not renew its automatic redrives."""
    app, broken = new_app(), {"second"}

    def step(name: str, redrive: str) -> object:
        async def run() -> str:
            if name in broken:
                raise FinalError(name)
            return name

        return app.task(run, name=name, max_attempts=1, redrive=redrive, max_redrives=1)  # type: ignore[call-overload]

    flow = app.workflow("flow", [step("first", "never"), step("second", "immediate")])  # type: ignore[list-item]
    async with bench(app):
        emitted = EventCollector(app)
        run = await app.start(flow)
        await run.wait()
        failures = app.failures(by="ana")
        letter = await letter_of(run)
        await parts_of(app).processor().run_once()
        await run.wait()
        assert (await failures.view(letter.id)).state == "EXHAUSTED"
        exhausted = [event.after for event in emitted.of(DeadLetterChanged) if event.dlq_id == letter.id]
        assert exhausted == ["EXHAUSTED"]
        assert [entry.action for entry in await failures.audit.about(letter.id)][:2] == [
            "dead_letter.exhausted",
            "replay.failed",
        ]
        broken.add("first")
        await failures.replay(letter.id, from_step="first")
        await run.wait()
        assert (await failures.view(letter.id)).state == "EXHAUSTED"
        await sound(app)
        broken.remove("first")
        await failures.replay((await letter_of(run)).id)
        await run.wait()
        again = await failures.view(letter.id)
        assert (again.state, again.redrives) == ("EXHAUSTED", 1)
        await sound(app)

        await sql(app, "UPDATE dead_letters SET redrives = 0")  # as if a replay had renewed them
        [finding] = (await verify(parts_of(app).database)).findings
        assert (finding.invariant, finding.subject) == ("I3", run.id)


async def test_12_a_letter_resolved_by_a_replay_has_its_entry_in_the_audit() -> None:
    shop = Shop()
    async with bench(shop.app):
        emitted = EventCollector(shop.app)
        run, letter = await shop.failed("ship")
        failures = shop.app.failures(by="ana")
        await failures.replay(letter.id)
        await run.result()
        assert [entry.action for entry in await failures.audit.about(letter.id)] == [
            "dead_letter.resolved",
            "replay.succeeded",
            "replay.requested",
            "dead_letter.moved",
        ]
        assert [event.after for event in emitted.of(DeadLetterChanged)] == ["RESOLVED"]
        await sound(shop.app)


async def test_a_run_that_fails_in_a_later_step_has_resolved_the_letter_and_not_the_replay() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, letter = await shop.failed("charge")
        failures = shop.app.failures()
        await failures.replay(letter.id)
        shop.broken.add("ship")
        await run.wait()
        assert (await failures.view(letter.id)).state == "RESOLVED"
        assert (await letter_of(run)).step == "ship"
        [replay] = await failures.replays.list(letter.id)
        assert replay.state == "FAILED"
        assert replay.note == fact("failed_again", step="ship", title="ship is broken")
        await sound(shop.app)


async def test_the_same_idempotency_key_goes_downstream_on_every_replay() -> None:
    shop = Shop()
    async with bench(shop.app):
        _, letter = await shop.failed("charge")
        shop.keys.clear()
        failures = shop.app.failures()
        for _ in range(2):
            shop.broken.add("charge")
            await failures.replay(letter.id)
            await shop.app.run(letter.run_id).wait()
        assert shop.keys == [letter.idempotency_key] * 2


async def test_an_edited_payload_is_executed_the_original_kept_and_the_change_recorded() -> None:
    app = new_app()
    received: list[Any] = []

    @app.task
    async def mail(message: dict[str, Any]) -> str:
        received.append(message)
        if "@" not in message["to"]:
            raise FinalError("no address")
        return "sent"

    async with bench(app):
        run = await app.start(mail, {"to": "ana", "body": "hello", "password": "secret-canary"})
        await run.wait()
        letter = await letter_of(run)
        failures = app.failures()
        edited = {"to": "ana@example.org", "body": "hello", "password": "another-canary"}
        with pytest.raises(InvalidValueError, match="reason"):
            await failures.replay(letter.id, payload=edited)
        replay = await failures.replay(letter.id, payload=edited, reason="the address was incomplete")
        assert await run.result() == "sent"
        assert received[-1] == edited
        row = await parts_of(app).store.runs.get(run.id, run.org)
        assert decode(row.input) == {"to": "ana", "body": "hello", "password": "secret-canary"}
        hidden = "(changed, not shown)"
        assert replay.edit == [
            {"path": "to", "before": "ana", "after": "ana@example.org"},
            {"path": "password", "before": hidden, "after": hidden},
        ]
        assert "canary" not in str(replay.edit)
        await sound(app)


async def test_an_edited_payload_must_fit_the_task() -> None:
    app = new_app()

    @app.task
    async def add(number: int) -> int:
        raise FinalError("no")

    async with bench(app):
        run = await app.start(add, 1)
        await run.wait()
        failures = app.failures()
        with pytest.raises(PayloadError):
            await failures.replay((await letter_of(run)).id, payload="one", reason="a try")
        assert (await letter_of(run)).state == "OPEN"


async def refused(app: Redrive, letter_id: str, match: str, **options: Any) -> None:
    with pytest.raises((ReplayRefusedError, InvalidValueError), match=match):
        await app.failures().replay(letter_id, **options)


async def test_invalid_requests_are_rejected_and_change_nothing() -> None:
    shop = Shop()
    async with bench(shop.app):
        _, letter = await shop.failed("charge")
        await refused(shop.app, letter.id, "no step 'pay'", from_step="pay")
        await refused(shop.app, letter.id, "from_step", from_step=3)
        await refused(shop.app, letter.id, "from_step", from_step=-1)
        await refused(shop.app, letter.id, "comes after the failed step", from_step="ship")
        await refused(shop.app, letter.id, "only the failed step", from_step="reserve", mode="STEP_ONLY")
        await refused(shop.app, letter.id, "mode", mode="EVERYTHING")
        with pytest.raises(NotFoundError):
            await shop.app.failures().replay("no-such-letter")
        [row] = await sql(shop.app, "SELECT count(*) FROM replays")
        assert row[0] == 0


async def test_a_letter_that_is_being_replayed_is_not_replayed_twice() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, letter = await shop.failed("charge")
        await shop.app.failures().replay(letter.id)
        await refused(shop.app, letter.id, "already")
        assert await run.result() == 4
        await refused(shop.app, letter.id, "has succeeded")


async def test_a_letter_of_another_org_does_not_exist_w13() -> None:
    shop = Shop()
    async with bench(shop.app):
        _, letter = await shop.failed("charge")
        stranger = shop.app.failures(org="other")
        for ask in (stranger.replay, stranger.view, stranger.verdict):
            with pytest.raises(NotFoundError, match="found no dead letter"):
                await ask(letter.id)
        assert await stranger.replays.list(letter.id) == []


async def test_cancelling_a_replayed_run_closes_its_letter() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, letter = await shop.failed("charge")
        failures = shop.app.failures()
        await failures.replay(letter.id)
        assert await run.cancel(by="ana") is Cancellation.CANCELLED
        closed = await failures.view(letter.id)
        assert (closed.state, closed.resolved_by) == ("IGNORED", "ana")
        assert [each.state for each in await failures.replays.list(letter.id)] == ["CANCELLED"]
        await refused(shop.app, letter.id, "reopen it first")
        await sound(shop.app)


async def test_the_history_contains_the_replay() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, letter = await shop.failed("charge")
        await shop.app.failures(by="ana").replay(letter.id, reason="gateway back")
        await run.wait()
        told = [each for each in (await run.history()).events if each.what == "replayed"]
        why = fact("replay_started", by="ana", mode="FROM_STEP", reason="gateway back")
        assert [(each.step, each.detail) for each in told] == [("charge", why)]


async def test_a_replay_that_the_database_does_not_take_at_once_is_started_once() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, letter = await shop.failed("charge")
        seam = Seam(parts_of(shop.app).database)  # type: ignore[arg-type]
        rewire(shop.app, seam, parts_of(shop.app).clock, parts_of(shop.app).random)
        seam.fail("mark_replaying", times=2)
        replay = await shop.app.failures().replay(letter.id)
        assert (replay.state, len(seam.triggered)) == ("RUNNING", 2)
        [row] = await sql(shop.app, "SELECT count(*) FROM replays")
        assert row[0] == 1
        assert (await run.view()).replays == 1


# Runs whose function was never called: each dead letter has an attempt, so the run has started


async def of_a_payload_that_does_not_fit(app: Redrive, test: Harness) -> RunHandle[Any]:
    @app.task
    async def pay(cents: int) -> None: ...

    run = await app.start(pay, 7)
    await sql(app, "UPDATE runs SET input = '\"seven\"'")
    return run


async def of_holds_used_up(app: Redrive, test: Harness) -> RunHandle[Any]:
    @app.task(breaker="bank", retry=replace(TWICE, max_holds=1))
    async def pay() -> None: ...

    await app.breakers().force("bank", "OPEN", reason="maintenance")
    run = await app.start(pay)
    await test.drain()
    held = await run.view()
    assert (held.place, held.state, held.started_at, held.attempt) == ("held", "PENDING", None, 0)
    assert (await run.history()).attempts == []
    await sql(app, "UPDATE runs SET place = 'ready', held_by = NULL")
    return run


@pytest.mark.parametrize("start", [of_a_payload_that_does_not_fit, of_holds_used_up])
async def test_a_dead_letter_of_work_that_was_never_called_has_an_attempt(
    start: Callable[[Redrive, Harness], Awaitable[RunHandle[Any]]],
) -> None:
    app = new_app()
    async with bench(app) as test:
        run = await start(app, test)
        await settle(test, app)
        await check_replayed(app, run)


async def test_a_dead_letter_of_another_system_has_an_attempt() -> None:
    queue = DeadLetterQueue("sqlite://:memory:", log=False)
    async with in_memory(queue.app):
        await queue.enqueue("one", {"to": "ana"}, error="the mailbox is full")
        [line] = (await queue.app.failures(org=queue.org).list()).lines
        await check_replayed(queue.app, queue.app.run(line.run_id, queue.org))


async def check_replayed(app: Redrive, run: RunHandle[Any]) -> None:
    letter, ended = await letter_of(run), await run.view()
    assert (letter.attempts, ended.state, ended.attempt) == (1, "DLQ_PENDING", 1)
    assert len((await run.history()).attempts) == 1
    assert ended.started_at is not None
    await app.failures().replay(letter.id)
    queued = await run.view()
    assert (queued.place, queued.state, queued.status) == ("ready", "RUNNING", "queued")
    assert queued.started_at == ended.started_at
    await sound(app)


# Retrying a run by hand (P8)


async def test_a_failed_run_is_retried_by_way_of_its_letter_p8() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, letter = await shop.failed("charge")
        failures = shop.app.failures(by="ana")
        await failures.replay_run(run.id, reason="paid by now")
        assert await run.result() == 4
        assert (await failures.view(letter.id)).state == "RESOLVED"
        with pytest.raises(ReplayRefusedError, match="only a failed run can be retried"):
            await failures.replay_run(run.id)
        with pytest.raises(NotFoundError):
            await shop.app.failures(org="other").replay_run(run.id)
        await sound(shop.app)


async def test_a_run_whose_letter_was_closed_is_still_retried() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, letter = await shop.failed("charge")
        failures = shop.app.failures()
        await failures.ignore(letter.id, "not worth it")
        await failures.replay_run(run.id)
        assert await run.result() == 4
        assert (await failures.view(letter.id)).state == "IGNORED"
        entries = (await failures.audit.list(action="run.retried")).entries
        assert [each.subjects for each in entries] == [(run.id,)]
        await sound(shop.app)


async def test_a_partial_run_continues_behind_the_step_that_was_replayed() -> None:
    shop = Shop()
    async with bench(shop.app):
        run, letter = await shop.failed("charge")
        failures = shop.app.failures()
        await failures.replay(letter.id, mode="STEP_ONLY")
        await run.wait()
        await failures.replay_run(run.id)
        assert await run.result() == 4
        assert shop.executed == [("charge", 2), ("ship", 3)]
        await sound(shop.app)


async def test_a_run_is_not_retried_when_its_source_is_gone_p8() -> None:
    app = new_app()
    files = {"a.pdf"}

    def source(payload: dict[str, str]) -> bool:
        return payload["file"] in files

    @app.task(source=source)
    async def convert(payload: dict[str, str]) -> str:
        if len(files) == 1:
            raise FinalError("no")
        return "done"

    async with bench(app):
        run = await app.start(convert, {"file": "a.pdf"})
        await run.wait()
        failures = app.failures()
        files.clear()
        with pytest.raises(ReplayRefusedError, match="no longer exists"):
            await failures.replay_run(run.id)
        assert await run.state() is RunState.DLQ_PENDING
        files.update({"a.pdf", "b.pdf"})
        await failures.replay_run(run.id)
        assert await run.result() == "done"
