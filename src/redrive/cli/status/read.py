"""All that `redrive status` tells, asked of the API."""

from __future__ import annotations

from typing import Any

from redrive.cli.client import Client
from redrive.cli.table import Row

MOST_GROUPS = 5
UNDER_WAY = ("RUNNING", "PAUSED", "STOPPED")


def read_status(client: Client, span: str) -> dict[str, Any]:
    operations = client.get("/api/v1/operations", size=20)["items"]
    groups = client.get("/api/v1/groups", q="is:needs-you", sort="occurrences", size=MOST_GROUPS)
    return {
        "overview": client.get("/api/v1/overview", span=span),
        "breakers": client.get("/api/v1/breakers")["items"],
        "queues": client.get("/api/v1/queues")["items"],
        "workers": client.get("/api/v1/workers")["items"],
        "groups": sorted(groups["items"], key=needing, reverse=True),
        "replays": [each for each in operations if each["state"] in UNDER_WAY],
    }


def needing(group: Row) -> int:
    """How many of its dead letters wait for somebody."""
    letters = group["dead_letters"]
    return int(letters["open"] + letters["exhausted"])
