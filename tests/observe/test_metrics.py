"""Counters for Prometheus (W15, P9): they count real events, and name no tenant."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tests.engine.workbench import bench, new_app

from redrive.errors import FinalError, RetryableError
from redrive.observe.metrics import Metrics


def counted(metrics: Metrics) -> dict[tuple[str, tuple[str, ...]], float]:
    families = text_string_to_metric_families(metrics.text().decode())
    samples = (sample for family in families for sample in family.samples)
    return {(each.name, tuple(each.labels.values())): each.value for each in samples}


async def test_attempts_retries_moves_and_replays_are_counted_w15() -> None:
    app, metrics = new_app(), Metrics()
    app.listen(metrics)
    fixed = False

    @app.task
    async def charge(order: Any) -> str:
        if not fixed:
            raise RetryableError("not yet")
        return "charged"

    async with bench(app) as test:
        run = await app.start(charge, 7, org="acme")
        await test.drain()
        await test.advance(3600)
        letter = await run.dead_letter()
        assert letter is not None
        fixed = True
        await app.failures(org="acme", by="ana").replay(letter.id)
        await test.drain()
    found = counted(metrics)
    step = ("charge", "charge")
    assert found["workflow_step_attempts_total", step] == 5
    assert found["workflow_step_retries_total", step] == 3
    assert found["workflow_dlq_moves_total", step] == 1
    assert found["workflow_dlq_replays_total", ("FROM_STEP",)] == 1
    assert found["redrive_replays_ended_total", ("SUCCEEDED",)] == 1
    assert found["redrive_runs_finished_total", ("SUCCESS", "charge")] == 1


async def test_failures_are_counted_by_code_and_no_tenant_is_named_i9() -> None:
    app, metrics = new_app(), Metrics()
    app.listen(metrics)

    @app.task
    async def charge(order: Any) -> None:
        raise FinalError("the card sk_live_canary of ana@acme.example was declined")

    async with bench(app) as test:
        await app.start(charge, {"card": "sk_live_canary"}, org="acme-canary")
        await test.drain()
    text = metrics.text().decode()
    assert "canary" not in text
    assert "ana@" not in text
    assert (
        sum(value for (name, _), value in counted(metrics).items() if name == "redrive_steps_failed_total")
        == 1
    )


async def test_shared_state_is_not_reported_by_a_single_process_p9() -> None:
    """Another process may close a breaker that this one has opened."""
    app, metrics = new_app(), Metrics()
    app.listen(metrics)
    async with bench(app):
        await app.breakers().force("gateway", "OPEN", reason="maintenance")
        await app.breakers().force("gateway", "OPEN", reason="still")
    found = counted(metrics)
    assert found["redrive_breaker_changes_total", ("gateway", "OPEN")] == 1
    assert not any(name in ("redrive_breaker_open", "redrive_dead_letters_needing_you") for name, _ in found)
