"""The page of workers: heartbeats, silent ones, versions (M9, W13)."""

from __future__ import annotations

from tests.server.admin.reading import Reading, read
from tests.server.house import House

from redrive.engine.queues import WorkerView
from redrive.failures.verdicts import SILENT_SECONDS
from redrive.parts import parts_of
from redrive.server.admin.infrastructure import WorkerLine, state_of, totals_of

PAGE = "/app/admin/workers"
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


def worker(state: str = "running", silent: float = 0.0, version: str = "1", busy: int = 2) -> WorkerView:
    return WorkerView("w", state, 0.0, 0.0, silent, version, ("mail",), 10, busy, None, None)


def test_a_worker_that_says_nothing_is_silent_unless_it_has_stopped() -> None:
    assert state_of(worker(silent=SILENT_SECONDS)) == "running"
    assert state_of(worker(silent=SILENT_SECONDS + 1)) == "silent"
    assert state_of(worker("stopped", SILENT_SECONDS + 1)) == "stopped"


def test_only_those_at_work_count_together() -> None:
    several = [
        worker(),
        worker(version="2", busy=5),
        worker(version="2"),
        worker("stopped"),
        worker(silent=999),
    ]
    together = totals_of([WorkerLine(each, state_of(each)) for each in several])
    assert together == (3, 9, 30, {"2": 2, "1": 1})


async def heard(house: House, name: str, version: str) -> None:
    assert parts_of(house.app).store is not None
    await parts_of(house.app).store.limits.heartbeat(
        name, version, '["mail", "payments"]', 10, 4, "running", "host-7.internal", 4711
    )


async def test_heartbeats_queues_and_versions_are_told(house: House) -> None:
    client = await house.keyed("VIEWER")
    assert "No workers have connected yet" in (await read(client, PAGE)).text
    await heard(house, "a" * 32, "2026.1")
    page = await read(client, PAGE)
    assert "4 of 10" in page.text
    assert "host-7.internal, process 4711" in page.text
    assert [each.text for each in page.find("span", class_="tag")] == ["mail", "payments"]
    assert "Several versions are at work" not in page.text
    await heard(house, "b" * 32, "2026.2")
    both = await read(client, PAGE)
    assert "Several code versions are running: 2026.1 on 1 worker, 2026.2 on 1 worker" in _single(both)


async def test_where_they_run_is_told_at_home_alone(house: House) -> None:
    await house.organization("acme")
    await heard(house, "a" * 32, EVIL)
    for org in ("default", "acme"):
        answer = await (await house.keyed("OWNER", org)).get(PAGE)
        assert ("host-7.internal" in answer.text) is (org == "default")
        assert "alert(1)" in answer.text
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text


def _single(page: Reading) -> str:
    return page.text.replace(" ,", ",").replace(" .", ".")
