"""The page of workers: heartbeats, silent workers, versions (M9, W13)."""

from __future__ import annotations

from tests.server.admin.reading import Reading, read
from tests.server.house import House

from redrive.engine.queues import WorkerView
from redrive.model.worker import SILENT_SECONDS, BlockingStep
from redrive.parts import parts_of
from redrive.server.admin.infrastructure import WorkerLine, totals_of
from redrive.store.leases import Holder

PAGE = "/app/admin/workers"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


def worker(state: str = "running", silent: float = 0.0, version: str = "1", busy: int = 2) -> WorkerView:
    return WorkerView("w", state, 0.0, 0.0, silent, version, ("mail",), 10, busy, None, None)


def test_a_worker_without_heartbeats_is_silent_unless_it_has_stopped() -> None:
    assert worker(silent=SILENT_SECONDS).condition == "running"
    assert worker(silent=SILENT_SECONDS + 1).condition == "silent"
    assert worker("stopped", SILENT_SECONDS + 1).condition == "stopped"


def test_only_live_workers_are_counted() -> None:
    several = [
        worker(),
        worker(version="2", busy=5),
        worker(version="2"),
        worker("stopped"),
        worker(silent=999),
    ]
    together = totals_of([WorkerLine(each, each.condition) for each in several])
    assert together == (3, 9, 30, {"2": 2, "1": 1})


async def heartbeat(house: House, name: str, version: str) -> None:
    assert parts_of(house.app).store is not None
    await parts_of(house.app).store.limits.heartbeat(
        name, version, '["mail", "payments"]', 10, 4, "running", "host-7.internal", 4711
    )


async def test_heartbeats_queues_and_versions_are_shown(house: House) -> None:
    client = await house.keyed("VIEWER")
    assert "No workers have connected yet" in (await read(client, PAGE)).text
    await heartbeat(house, "a" * 32, "2026.1")
    page = await read(client, PAGE)
    assert "4 of 10" in page.text
    assert "host-7.internal, process 4711" in page.text
    assert [each.text for each in page.find("span", class_="tag")] == ["mail", "payments"]
    assert "Several versions are at work" not in page.text
    await heartbeat(house, "b" * 32, "2026.2")
    both = await read(client, PAGE)
    assert "Several code versions are running: 2026.1 on 1 worker, 2026.2 on 1 worker" in _single(both)


async def test_the_step_that_blocks_a_worker_is_named_here_and_with_its_run(house: House) -> None:
    await house.organization("acme")
    run = await house.app.start("greet")
    store = parts_of(house.app).store
    await store.leases.claim("default", 1, Holder(7, "w" * 32, "", 3600.0))
    await heartbeat(house, "w" * 32, "1")
    await store.limits.note_blocked(
        "w" * 32, 90.0, BlockingStep(run.id, "default", "greet", EVIL, "greet", 1)
    )
    client = await house.keyed("OWNER")
    for address in (PAGE, f"/app/admin/runs/{run.id}"):
        page = _single(await read(client, address))
        assert "its event loop has not answered for 1 min" in page
        assert f"of run {run.id} blocks it" in page
        assert "Blocked" in page or address != PAGE
    assert (await client.get("/api/v1/workers")).json()["items"][0]["blocking_step"]["run_id"] == run.id
    stranger = await (await house.keyed("OWNER", "acme")).get(PAGE)
    assert "its event loop has not answered for" in stranger.text
    assert run.id not in stranger.text
    assert EVIL not in stranger.text


async def test_hosts_are_shown_to_home_only(house: House) -> None:
    await house.organization("acme")
    await heartbeat(house, "a" * 32, EVIL)
    for org in ("default", "acme"):
        answer = await (await house.keyed("OWNER", org)).get(PAGE)
        assert ("host-7.internal" in answer.text) is (org == "default")
        assert "alert(1)" in answer.text
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text


def _single(page: Reading) -> str:
    return page.text.replace(" ,", ",").replace(" .", ".")
