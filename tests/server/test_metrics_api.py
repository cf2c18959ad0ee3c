"""Metrics over HTTP (W15, P9)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import Receive, Scope, Send
from tests.server.house import House, new_app
from tests.servers import PostgresServer

from redrive.app import Redrive
from redrive.errors import StatementTimeoutError, StoreError, StoreUnavailableError
from redrive.observe.metrics import Metrics
from redrive.parts import parts_of
from redrive.server.metrics import StoreFailures

METRICS = "/metrics"
WITHOUT_PROMETHEUS = """
import sys
sys.modules["prometheus_client"] = None
import asyncio
from tests.server.house import new_app, served

async def main():
    async with served(new_app("sqlite://:memory:")) as house:
        answer = await (await house.keyed("VIEWER")).get("/metrics")
        print(answer.status_code, answer.json()["code"], "redrive[metrics]" in answer.json()["hint"])

asyncio.run(main())
"""


async def samples(house: House, role: str = "VIEWER") -> dict[tuple[str, tuple[str, ...]], float]:
    answer = await (await house.keyed(role)).get(METRICS)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = text_string_to_metric_families(answer.text)
    return {
        (each.name, tuple(each.labels.values())): each.value for family in families for each in family.samples
    }


async def test_events_and_current_states_are_counted(house: House) -> None:
    await house.organization("acme")
    for org in ("default", "acme"):
        await house.dead_letter(org=org)
    await house.app.start("greet", "ana", org="acme")
    before = await samples(house)
    assert before["workflow_step_attempts_total", ("charge", "charge")] == 2
    assert before["workflow_dlq_moves_total", ("charge", "charge")] == 2
    assert before["redrive_dead_letters", ("OPEN",)] == 2
    assert before["redrive_dead_letters", ("RESOLVED",)] == 0
    assert before["redrive_dead_letters_needing_you", ()] == 2
    assert before["redrive_dead_letters_oldest_seconds", ()] > 0
    assert before["redrive_queue_depth", ("ready", "default")] == 1
    assert before["redrive_queue_oldest_seconds", ("default",)] > 0
    await house.work()
    after = await samples(house)
    assert after["redrive_runs_finished_total", ("SUCCESS", "greet")] == 1
    assert after["redrive_queue_depth", ("ready", "default")] == 0
    assert after["redrive_queue_oldest_seconds", ("default",)] == 0


@pytest.fixture
async def elsewhere(request: pytest.FixtureRequest, house: House, tmp_path: Path) -> AsyncIterator[Redrive]:
    """Another process on the same database, with work that the server does not know."""
    url, schema = f"sqlite:///{tmp_path}/work.db", "redrive"
    if request.node.callspec.params["house"] == "postgres":
        server: PostgresServer = request.getfixturevalue("live_postgres")
        url, schema = server.url, request.getfixturevalue("shared_schema")
    app = new_app(url, schema)

    @app.task(breaker="gateway", queue="payments")
    async def pay(order: int) -> None:
        pass

    yield app
    await app.close()


async def test_breakers_are_read_from_the_database(house: House, elsewhere: Redrive) -> None:
    worker = parts_of(elsewhere).worker_in_test()
    await elsewhere.breakers().force("gateway", "OPEN", reason="maintenance")
    await elsewhere.start("pay", 7)
    await worker.work_off()
    opened = await samples(house)
    assert opened["redrive_breaker_open", ("gateway",)] == 1
    assert opened["redrive_breaker_held", ("gateway",)] == 1
    assert opened["redrive_queue_depth", ("held", "payments")] == 1
    await elsewhere.breakers().force("gateway", "CLOSED", reason="done")
    closed = await samples(house)
    assert closed["redrive_breaker_open", ("gateway",)] == 0


async def test_a_breaker_that_the_program_names_has_a_series_before_its_first_call(house: House) -> None:
    house.app.breaker("mail")
    found = await samples(house)
    assert found["redrive_breaker_open", ("mail",)] == 0
    assert found["redrive_breaker_held", ("mail",)] == 0


async def test_workers_that_have_stopped_do_not_count(house: House) -> None:
    assert (await samples(house))["redrive_workers", ("running",)] == 0
    holds = parts_of(house.app).store.limits
    for worker, state in (("a", "running"), ("b", "stopped"), ("c", "running")):
        await holds.heartbeat(worker, "1", '["labels"]', 4, 0, state)
    found = await samples(house)
    assert found["redrive_workers", ("running",)] == 2
    assert found["redrive_workers", ("silent",)] == 0
    assert ("redrive_workers", ("stopped",)) not in found
    assert found["redrive_queue_depth", ("ready", "labels")] == 0


async def test_a_worker_whose_event_loop_does_not_answer_is_blocked(house: House) -> None:
    assert (await samples(house))["redrive_workers", ("blocked",)] == 0
    holds = parts_of(house.app).store.limits
    for worker, state in (("a", "running"), ("b", "running"), ("c", "stopped")):
        await holds.heartbeat(worker, "1", '["labels"]', 4, 0, state)
    for worker in ("a", "c"):
        await holds.note_blocked(worker, 7.0, None)
    found = await samples(house)
    assert found["redrive_workers", ("running",)] == 1
    assert found["redrive_workers", ("blocked",)] == 1


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (StoreUnavailableError("away"), 1),
        (StoreError("broken"), 1),
        (StatementTimeoutError("slow", seconds=5.0), 0),
        (ValueError("no"), 0),
    ],
)
async def test_only_unavailability_counts_as_a_failure_of_the_database(error: Exception, number: int) -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        raise error

    async def nothing(*_: object) -> None:
        pass

    metrics = Metrics()
    with pytest.raises(type(error)):
        await StoreFailures(failing, metrics)({}, nothing, nothing)  # type: ignore[arg-type]
    assert f"redrive_store_failures_total {number}.0" in metrics.text().decode()


async def test_no_tenant_or_user_is_named_i8_i9(house: House) -> None:
    await house.organization("acme-canary")
    await house.dead_letter({"card": "payload-canary"}, org="acme-canary")
    text = (await (await house.keyed("VIEWER", name="key-canary")).get(METRICS)).text
    assert "canary" not in text


async def test_they_cover_the_whole_installation(house: House) -> None:
    await house.organization("acme")
    foreign = await (await house.keyed("OWNER", "acme")).get(METRICS)
    assert (foreign.status_code, foreign.json()["code"]) == (403, "not_at_home")
    assert (await house.client().get(METRICS)).status_code == 401


def test_without_prometheus_the_server_runs_and_says_what_to_install() -> None:
    command = [sys.executable, "-c", WITHOUT_PROMETHEUS]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.split() == ["501", "no_metrics", "True"]
