"""All that `redrive status` tells, asked of the API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redrive.cli.client import Client
from redrive.cli.queue import depths
from redrive.cli.table import Row
from redrive.cli.workers import is_heard

MAX_GROUPS = 5
MAX_RUNS = 200
"""Of those that are in flight: so many are looked at."""
UNDER_WAY = ("RUNNING", "PAUSED", "STOPPED")


def read_status(client: Client, span: str) -> dict[str, Any]:
    operations = client.get("/api/v1/operations", size=20)["items"]
    groups = client.get("/api/v1/groups", q="is:needs-you", sort="occurrences", size=MAX_GROUPS)
    queues, workers = client.get("/api/v1/queues")["items"], client.get("/api/v1/workers")["items"]
    return {
        "overview": client.get("/api/v1/overview", span=span),
        "breakers": client.get("/api/v1/breakers")["items"],
        "queues": queues,
        "workers": workers,
        "abandoned": _abandoned(client, workers) if counts(queues, "executing") else [],
        "groups": sorted(groups["items"], key=needing, reverse=True),
        "replays": [each for each in operations if each["state"] in UNDER_WAY],
    }


def needing(group: Row) -> int:
    """How many of its dead letters wait for somebody."""
    letters = group["dead_letters"]
    return int(letters["open"] + letters["exhausted"])


def counts(queues: Sequence[Row], *places: str) -> int:
    """How many runs lie there, in all queues together."""
    return sum(depths(each)[place]["number"] for each in queues for place in places)


def _abandoned(client: Client, workers: Sequence[Row]) -> list[str]:
    """The ids of runs in flight whose worker is gone: their leases have expired, or are about to."""
    heard = {each["id"] for each in workers if is_heard(each)}
    runs = client.get("/api/v1/runs", q="is:executing", size=MAX_RUNS)["items"]
    return [each["id"] for each in runs if each["worker"] not in heard]
