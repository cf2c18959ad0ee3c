"""Bugs that the simulation has found, each reduced to a few lines."""

from __future__ import annotations

from tests.engine.workbench import bench, new_app
from tests.guards.switch import switched_off
from tests.simulation.script import (
    Fault,
    FaultKind,
    Outcome,
    RunPlan,
    Script,
    StepPlan,
    TaskPlan,
    Trouble,
    WorkerPlan,
)
from tests.simulation.simulate import play

from redrive import FinalError
from redrive.parts import parts_of


async def test_a_letter_that_is_resolved_on_the_way_of_its_replay_has_its_audit_entry() -> None:
    """I14: the run continues with its next step, and the letter changes long before the replay ends."""
    app, broken = new_app(), {"first"}

    def step(name: str) -> object:
        async def run() -> str:
            if name in broken:
                raise FinalError(name)
            return name

        return app.task(run, name=name)  # type: ignore[call-overload]

    flow = app.workflow("flow", [step("first"), step("second")])  # type: ignore[list-item]
    async with bench(app):
        run = await app.start(flow)
        await run.wait()
        letter = await run.dead_letter()
        assert letter is not None
        broken.clear()
        failures = app.failures(by="ana")
        await failures.replay(letter.id)
        await run.wait()
        told = [(each.action, each.actor) for each in await failures.audit.about(letter.id)]
        assert told[:3] == [
            ("replay.succeeded", "redrive"),
            ("dead_letter.resolved", "redrive"),
            ("replay.requested", "ana"),
        ]
        assert (await failures.audit.verify()).sound


async def test_11_a_replay_from_an_earlier_step_does_not_renew_the_automatic_redrives() -> None:
    """I3: the failed step keeps its count of redrives while the steps before it execute again."""
    app = new_app()

    @app.task
    async def first() -> int:
        return 1

    @app.task(max_attempts=1, redrive="immediate", max_redrives=2)
    async def second(number: int) -> None:
        raise FinalError("never")

    flow = app.workflow("flow", [first, second])
    async with bench(app):
        run = await app.start(flow)
        await run.wait()
        failures = app.failures(by="ana")
        letter = await run.dead_letter()
        assert letter is not None
        for _ in range(2):
            await failures.replay(letter.id, from_step="first", reason="again")
            await run.wait()
        letter = await run.dead_letter()
        assert letter is not None
        automatic = sum(bool(replay.automatic) for replay in await failures.replays.list(letter.id))
        assert (letter.state, letter.redrives, automatic) == ("EXHAUSTED", 2, 2)


async def test_an_earlier_step_that_fails_in_a_replay_starts_with_all_its_automatic_redrives() -> None:
    """I10: its letter is OPEN, even if the next step has used up its redrives."""
    app, broken = new_app(), {"second"}

    def step(name: str, redrive: str) -> object:
        async def run() -> str:
            if name in broken:
                raise FinalError(name)
            return name

        return app.task(run, name=name, max_attempts=1, redrive=redrive, max_redrives=1)  # type: ignore[call-overload]

    flow = app.workflow("flow", [step("first", "linear"), step("second", "immediate")])  # type: ignore[list-item]
    async with bench(app):
        run = await app.start(flow)
        await run.wait()
        failures = app.failures(by="ana")
        letter = await run.dead_letter()
        assert letter is not None
        await parts_of(app).processor().run_once()
        await run.wait()
        letter = await failures.view(letter.id)
        assert (letter.state, letter.redrives) == ("EXHAUSTED", 1)

        broken.add("first")
        await failures.replay(letter.id, from_step="first")
        await run.wait()
        earlier = await run.dead_letter()
        assert earlier is not None
        assert (earlier.step, earlier.state, earlier.redrives) == ("first", "OPEN", 0)


def stopped_during(trouble: Trouble) -> Script:
    """A worker stops while a step is in progress, and its grace ends before the step does (seed 700916)."""
    worker = WorkerPlan("w0", ("default",), 10, lease=4.0, poll=3.0, grace=1.0, skew=0.0)
    step = StepPlan((Outcome.HANG, Outcome.FINAL), (trouble,))
    stop = Fault(8.0, FaultKind.STOP, "w0", 40.0)
    return Script(0, (worker,), (TaskPlan("t", timeout=20.0),), (), (RunPlan(0, "t", (step,)),), (stop,))


def test_a_stopping_worker_keeps_only_the_lease_of_a_step_that_does_not_stop() -> None:
    """I15: its function continues, so no other worker may execute the step before the lease expires."""
    assert not play(stopped_during(Trouble.STUBBORN)).findings
    assert not play(stopped_during(Trouble.LONG)).findings
    with switched_off("drain.give back"):
        assert play(stopped_during(Trouble.LONG)).invariants == {"I15"}


def cut_off_in_the_middle(schedule: int) -> Script:
    """Steps of both workers finish during an outage that outlasts the leases."""
    workers = tuple(WorkerPlan(name, ("default",), 2, 4.0, 3.0, 1.0, 0.0) for name in ("w0", "w1"))
    runs = tuple(RunPlan(number, "t", (StepPlan((), (Trouble.SLEEP,)),)) for number in range(4))
    outage = Fault(0.5, FaultKind.OUTAGE, "", 8.0)
    return Script(schedule, workers, (TaskPlan("t"),), (), runs, (outage,))


def test_after_an_outage_all_workers_write_their_results_before_leases_are_taken_over() -> None:
    """Gap 3: the worker that reconnects first leaves the other workers time to reconnect."""
    taken_over = [play(cut_off_in_the_middle(schedule)).occurrences["reclaim"] for schedule in range(20)]
    assert not any(taken_over)


def stopped_before_the_answer() -> Script:
    """The answer of a takeover is late, and the worker must stop before it arrives (seed 703996)."""
    worker = WorkerPlan("w0", ("default",), 2, lease=9.0, poll=1.0, grace=0.0, skew=0.0)
    run = RunPlan(0, "t", (StepPlan((), (Trouble.LONG,)),))
    faults = (
        Fault(0.5, FaultKind.CRASH, "w0", 2.0),
        Fault(9.0, FaultKind.LATE_ANSWER, "w0", 20.0, "reclaim"),
        Fault(17.0, FaultKind.HURRY, "w0", 60.0),
    )
    return Script(0, (worker,), (TaskPlan("t"),), (), (run,), faults)


def test_a_stopping_worker_finishes_a_takeover_without_an_answer() -> None:
    """I15: the worker would otherwise keep unknown leases until they expire."""
    assert not play(stopped_before_the_answer()).findings
    with switched_off("unknown takeover"):
        assert play(stopped_before_the_answer()).invariants == {"I15"}
