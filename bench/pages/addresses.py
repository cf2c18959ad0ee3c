"""The addresses of the measured pages."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from bench.pages.examples import Examples

ADMIN = "/app/admin"
RUNS, LETTERS = f"{ADMIN}/runs", f"{ADMIN}/dlq"
PLAIN = ("replays", "breakers", "queues", "workers", "audit", "settings", "status", "keys")
RUN_QUERIES = ("is:failed", "workflow:workflow-3", "queue:queue-1", "is:held", "since:1h", "id:{run}")
LETTER_QUERIES = (
    "is:open",
    "category:timeout",
    "step:charge",
    "workflow:workflow-3",
    "fp:{frequent}",
    "attempts:>3",
    "since:2h",
)
TEXTS = ("ReadTimeout", "nothing-like-that")
SCANS = {RUNS: ("attempts:>3", "version:nothing"), f"{LETTERS}?view=flat": ("tag:nothing", *TEXTS)}


class Address(NamedTuple):
    """An address. `quick`: an index serves it. Other pages only need to respond or refuse in time."""

    path: str
    quick: bool = True


def addresses(known: Examples) -> list[Address]:
    values = known._asdict()
    slow = [_asking(path, query, values) for path, queries in SCANS.items() for query in queries]
    return [
        *map(Address, _pages(known)),
        *(Address(_asking(RUNS, query, values)) for query in RUN_QUERIES),
        *(Address(_asking(f"{LETTERS}?view=groups", query, values)) for query in LETTER_QUERIES),
        *(Address(_asking(f"{LETTERS}?view=flat", query, values)) for query in LETTER_QUERIES),
        *(Address(path, quick=False) for path in slow),
    ]


def _pages(known: Examples) -> list[str]:
    return [
        ADMIN,
        f"{ADMIN}?span=7d",
        *(f"{ADMIN}/{name}" for name in PLAIN),
        RUNS,
        f"{RUNS}?cursor={known.runs_far}",
        f"{RUNS}/{known.run}",
        f"{RUNS}/{known.idle}",
        LETTERS,
        f"{LETTERS}?sort=occurrences",
        f"{LETTERS}?view=flat",
        f"{LETTERS}?view=flat&cursor={known.letters_far}",
        f"{LETTERS}/groups/{quote(known.frequent)}",
        f"{LETTERS}/groups/{quote(known.rare)}",
        f"{LETTERS}/{known.letter}",
        f"{LETTERS}/{known.letter}?compare=1,3",
        f"{ADMIN}/replays/new?ids={known.letter}",
        f"{ADMIN}/replays/new?group={quote(known.frequent)}",
        f"{ADMIN}/replays/new?q={quote('workflow:workflow-3 is:open')}",
        f"{ADMIN}/replays/{known.operation}",
        f"{ADMIN}/audit?actor=cleo",
        f"{ADMIN}/audit?action=key.created",
        f"{ADMIN}/audit?subject={known.letter}",
        f"{ADMIN}/audit?cursor={known.audit_far}",
    ]


def _asking(path: str, query: str, values: dict[str, str]) -> str:
    return f"{path}{'&' if '?' in path else '?'}q={quote(query.format(**values))}"
