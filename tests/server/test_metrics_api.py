"""Metrics over HTTP (W15, P9)."""

from __future__ import annotations

import subprocess
import sys

from prometheus_client.parser import text_string_to_metric_families
from tests.server.house import House

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


async def test_what_has_happened_and_what_there_is_is_counted(house: House) -> None:
    await house.organization("acme")
    for org in ("default", "acme"):
        await house.dead_letter(org=org)
    await house.app.start("greet", "ana", org="acme")
    before = await samples(house)
    assert before["workflow_step_attempts_total", ("charge", "charge")] == 2
    assert before["workflow_dlq_moves_total", ("charge", "charge")] == 2
    assert before["redrive_dead_letters", ("OPEN",)] == 2
    assert before["redrive_dead_letters", ("RESOLVED",)] == 0
    assert before["redrive_queue_depth", ("ready", "default")] == 1
    await house.work()
    after = await samples(house)
    assert after["redrive_runs_finished_total", ("SUCCESS", "greet")] == 1
    assert ("redrive_queue_depth", ("ready", "default")) not in after


async def test_nobody_is_named_i8_i9(house: House) -> None:
    await house.organization("acme-canary")
    await house.dead_letter({"card": "payload-canary"}, org="acme-canary")
    text = (await (await house.keyed("VIEWER", name="key-canary")).get(METRICS)).text
    assert "canary" not in text


async def test_they_are_those_of_the_installation(house: House) -> None:
    await house.organization("acme")
    foreign = await (await house.keyed("OWNER", "acme")).get(METRICS)
    assert (foreign.status_code, foreign.json()["code"]) == (403, "not_at_home")
    assert (await house.client().get(METRICS)).status_code == 401


def test_without_prometheus_the_server_runs_and_says_what_to_install() -> None:
    command = [sys.executable, "-c", WITHOUT_PROMETHEUS]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.split() == ["501", "no_metrics", "True"]
