"""What the simulation has found, reduced to a few lines each."""

from __future__ import annotations

from tests.engine.workbench import bench, new_app

from redrive import FinalError
from redrive.parts import parts_of


async def test_a_letter_that_is_resolved_on_the_way_of_its_replay_has_its_audit_entry() -> None:
    """I14: the run goes on to its next step, and the letter changes long before the replay has ended."""
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
    """I3: the step that failed keeps count of its redrives while the steps before it are executed again."""
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
    """I10: its letter is OPEN, even if the redrives of the step behind it are used up."""
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
