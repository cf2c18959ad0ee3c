"""Which failures become dead letters (M5, M6), and how they are handled (M1, M4, M12)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.engine.workbench import EventCollector, bench, sql

from redrive import FinalError, Template
from redrive.app import Redrive
from redrive.engine.handle import RunHandle
from redrive.errors import InvalidValueError, ReplayRefusedError
from redrive.model.event import AlertRaised
from redrive.model.fact import fact
from redrive.model.run import RunState
from redrive.parts import parts_of
from redrive.settings import Settings
from redrive.verify import verify


def app_with(**settings: Any) -> Redrive:
    app = Redrive("sqlite://:memory:", settings=Settings(**settings), log=False)

    @app.task(max_attempts=1)
    async def work(kind: str) -> str:
        raise {"network": ConnectionError, "validation": ValueError}.get(kind, FinalError)(f"{kind} failed")

    return app


async def failed(app: Redrive, kind: str, **options: Any) -> RunHandle[Any]:
    run = await app.start("work", kind, **options)
    await run.wait()
    return run


async def check_sound(app: Redrive) -> None:
    verdict = await verify(parts_of(app).database)
    assert verdict.sound, str(verdict)


async def letters(app: Redrive) -> int:
    [row] = await sql(app, "SELECT count(*) FROM dead_letters")
    return int(row[0])


@pytest.mark.parametrize(
    ("strategy", "kept"),
    [
        ("automatic", {"network", "validation"}),
        ("selective", {"network"}),
        ("manual", set()),
        ("disabled", set()),
    ],
)
async def test_the_strategy_decides_which_failures_enter_m5(strategy: str, kept: set[str]) -> None:
    app = app_with(dlq_strategy=strategy)
    async with bench(app):
        for kind in ("network", "validation"):
            run = await failed(app, kind)
            letter = await run.dead_letter()
            assert (letter is not None) is (kind in kept)
            assert await run.state() is (RunState.DLQ_PENDING if kind in kept else RunState.FAILED)
        await check_sound(app)


async def test_on_request_a_failed_run_enters_and_can_be_replayed() -> None:
    app = app_with(dlq_strategy="manual")
    async with bench(app):
        run = await failed(app, "network", tags=["vip"])
        failures = app.failures()
        letter_id = await failures.add(run.id)
        letter = await failures.view(letter_id)
        assert (letter.payload, letter.tags) == ("network", ("vip",))
        await failures.replay(letter_id)
        assert await run.wait() is RunState.DLQ_PENDING
        assert (await failures.view(letter_id)).attempts == 2
        await check_sound(app)


@pytest.mark.parametrize("by_the_version_before", [False, True])
async def test_on_request_a_run_enters_the_group_that_its_worker_determined(
    by_the_version_before: bool,
) -> None:
    app = app_with(dlq_strategy="manual")
    async with bench(app):
        run = await failed(app, "network")
        text = "the same call path: shop.work; type ConnectionError, step work"
        if by_the_version_before:
            change = "UPDATE run_events SET detail = json_set(detail, '$.fingerprint_reason', ?1)"
            await sql(app, change, text)
        failures = app.failures()
        letter = await failures.view(await failures.add(run.id))
        group = (await failures.groups.view(letter.fingerprint)).group
        assert letter.fingerprint_reason == group.reason
        if by_the_version_before:
            assert group.reason == fact("sentence", text=text)
        else:
            assert (group.reason.code, group.reason.fields["step"]) == ("same_call_path", "work")


async def test_a_run_that_has_not_failed_does_not_enter() -> None:
    app = app_with()

    @app.task
    async def fine() -> int:
        return 1

    async with bench(app):
        run = await app.start(fine)
        await run.wait()
        with pytest.raises(ReplayRefusedError, match="succeeded"):
            await app.failures().add(run.id)


async def test_dead_letters_of_runs_are_redriven_only_on_request() -> None:
    """A task's budget is a promise; a second mechanism below it would break the promise (W4)."""
    app = app_with()
    async with bench(app) as test:
        run = await failed(app, "network")
        await test.advance(100_000)
        letter = await run.dead_letter()
        assert letter is not None
        assert (letter.state, letter.redrive, letter.attempts) == ("OPEN", "never", 1)


async def test_by_category_they_are_redriven_and_then_exhausted_m4() -> None:
    app = app_with(dlq_redrive="by_category", dlq_default_max_retries=2, dlq_archive_days=None)
    async with bench(app) as test:
        network, validation = await failed(app, "network"), await failed(app, "validation")
        await test.advance(7 * 3_600)
        redriven, left = await network.dead_letter(), await validation.dead_letter()
        assert redriven is not None
        assert left is not None
        assert (redriven.state, redriven.redrives, redriven.attempts) == ("EXHAUSTED", 2, 3)
        assert (left.state, left.redrives, left.attempts) == ("OPEN", 0, 1)
        attempts = (await network.history()).attempts
        gaps = [
            round((after.started_at or 0.0) - (before.ended_at or 0.0))
            for before, after in pairwise(attempts)
        ]
        assert gaps == [60, 120]
        await check_sound(app)


async def test_exhausted_for_seven_days_it_is_archived_m10() -> None:
    app = app_with(dlq_redrive="immediate", dlq_default_max_retries=1)
    async with bench(app) as test:
        run = await failed(app, "network")
        await test.advance(3_600)
        letter = await run.dead_letter()
        assert letter is not None
        assert letter.state == "EXHAUSTED"
        await test.advance(8 * 86_400)
        letter = await run.dead_letter()
        assert letter is not None
        assert (letter.state, letter.resolved_by) == ("ARCHIVED", "redrive")


async def test_a_template_handles_matching_failures_m12() -> None:
    app = app_with()
    app.template(
        Template(
            "gateway down",
            category="network",
            redrive="linear",
            max_redrives=5,
            tags=["gateway"],
            owner="payments",
            runbook="https://example.org/runbooks/gateway",
        )
    )
    async with bench(app):
        run = await failed(app, "network", tags=["vip"])
        letter = await run.dead_letter()
        assert letter is not None
        assert letter.tags == ("vip", "gateway")
        assert (letter.template, letter.assignee, letter.redrive) == ("gateway down", "payments", "linear")
        assert letter.runbook == "https://example.org/runbooks/gateway"
        other = await (await failed(app, "validation")).dead_letter()
        assert other is not None
        assert (other.template, other.redrive) == (None, "never")


async def test_the_figures_of_a_lifetime_follow_m7() -> None:
    app = app_with(dlq_redrive="immediate", dlq_default_max_retries=1)
    async with bench(app) as test:
        run = await failed(app, "network")
        await test.advance(3_600)
        failures = app.failures()
        letter = await run.dead_letter()
        assert letter is not None
        await failures.replay(letter.id)
        await run.wait()
        rows = await sql(app, "SELECT figure, number FROM dead_letter_figures")
        assert {row[0]: row[1] for row in rows} == {
            "enqueued_total": 1,
            "retry_failed": 2,
            "exhausted": 2,
            "manually_retried": 1,
        }


async def test_a_retry_does_not_get_around_the_strategy_m5() -> None:
    app = app_with(dlq_strategy="disabled")
    async with bench(app):
        run = await failed(app, "network")
        failures = app.failures()
        await failures.replay_run(run.id)
        assert await run.wait() is RunState.FAILED
        assert await letters(app) == 0
        with pytest.raises(ReplayRefusedError, match="disabled"):
            await failures.add(run.id)
        await check_sound(app)


async def test_the_most_specific_number_of_redrives_applies() -> None:
    app = app_with(dlq_redrive="exponential", dlq_default_max_retries=7)

    @app.task(max_attempts=1, max_redrives=9)
    async def own(kind: str) -> None:
        raise ConnectionError(kind)

    @app.task(max_attempts=1, redrive="linear")
    async def policy(kind: str) -> None:
        raise ConnectionError(kind)

    async with bench(app):
        found = {}
        for name in ("work", "own", "policy"):
            run = await app.start(name, "network")
            await run.wait()
            letter = await run.dead_letter()
            assert letter is not None
            found[name] = (letter.redrive, letter.max_redrives)
        assert found == {"work": ("exponential", 7), "own": ("exponential", 9), "policy": ("linear", 7)}


async def test_an_object_that_is_no_template_and_no_policy_is_rejected_at_once() -> None:
    app = app_with()
    with pytest.raises(InvalidValueError):
        app.template("gateway")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError):
        parts_of(app).declared.add_redrive_function("mine", "soon")  # type: ignore[arg-type]
    with pytest.raises(InvalidValueError):
        app.task(name="x", source=5)(lambda: None)  # type: ignore[call-overload]
    app.template(Template("t", category="network", redrive="custom:mine"))
    with pytest.raises(InvalidValueError, match="the redrive function 'mine'"):
        app.worker()
    parts_of(app).declared.add_redrive_function("mine", lambda redrives: 5.0)
    app.worker()


async def test_m9_a_configured_size_alerts_and_never_rejects_a_letter() -> None:
    app = app_with(dlq_max_size=100)
    async with bench(app) as test:
        emitted = EventCollector(app)
        runs = [await app.start("work", "network") for _ in range(103)]
        states = [await run.wait() for run in runs]
        assert states == [RunState.DLQ_PENDING] * 103
        assert await letters(app) == 103
        await test.advance(61.0)
        [alert] = [told for told in emitted.of(AlertRaised) if told.alert == "queue_nearly_full"]
        assert "of 100 dead letters" in alert.message
        statistics = await app.failures().statistics()
        assert statistics.lifetime.refused == 0
        await check_sound(app)
