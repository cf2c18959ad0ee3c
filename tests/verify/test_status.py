"""The API, the command line and the pages show the same status, and the glossary explains it."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from typing import Any

import pytest
from tests.server.admin.reading import Reading, read
from tests.server.house import served
from tests.verify.history import History
from tests.words.glossary import states_by_status

from redrive.app import Redrive
from redrive.parts import parts_of


async def table(app: Redrive, *arguments: str) -> list[str]:
    """Return the lines that a command prints for people."""
    settings = parts_of(app).settings
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REDRIVE_")}
    environment |= {
        "REDRIVE_DATABASE_URL": settings.database_url,
        "REDRIVE_SCHEMA": settings.schema,
        "COLUMNS": "400",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "redrive", *arguments, "--output", "table"),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode().splitlines()


def first_state(page: Reading) -> str:
    """Return the status that the page shows first, next to its title or as the first mark of its object."""
    [main] = page.find("main")
    marks = [
        element.text.lower()
        for element in page.elements
        if "state" in element.attributes.get("class", "").split() and element.text in main.text
    ]
    return marks[0]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("path", "page", "command", "expected"),
    [
        (
            *("runs", "/app/admin/runs", ("run", "list")),
            "queued, waiting, on hold, retrying, running, succeeded, needs attention, cancelled",
        ),
        ("dead-letters", "/app/admin/dlq", ("dlq", "list"), "open"),
    ],
)
async def test_every_interface_shows_the_status_of_the_glossary(
    history: History, path: str, page: str, command: tuple[str, ...], expected: str
) -> None:
    states, shown = states_by_status(), set[str]()
    lines = {line.split()[0]: line for line in await table(history.app, *command)}
    async with served(history.app) as house, house.client(await house.key()) as client:
        items: list[dict[str, Any]] = (await client.get(f"/api/v1/{path}")).json()["items"]
        for item in items:
            status = item["status"]
            assert item["state"] in states[status]
            assert re.split(r"  +", lines[item["id"]])[1] == status
            assert first_state(await read(client, f"{page}/{item['id']}")).partition(":")[0] == status
            shown.add(status)
    assert shown == set(expected.split(", "))
