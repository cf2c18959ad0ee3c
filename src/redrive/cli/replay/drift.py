"""What has changed since a bulk replay was planned, looked up without starting it.

The server looks again when it starts it, and is who decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from redrive.cli.client import Client, segment
from redrive.cli.replay.plan import LETTERS, PATH
from redrive.cli.table import Row
from redrive.cli.text import moment

AT_ONCE = 20
"""Fingerprints in one query."""


class Change(NamedTuple):
    letter_id: str
    change: str


def changes(client: Client, operation: Row) -> list[Change]:
    """Which of its dead letters are not as they were planned, in the order of the plan."""
    items = list(client.pages(f"{PATH}/{segment(operation['id'])}/items", state="PLANNED"))
    open_now = {each["id"]: each for each in _open(client, sorted({each["fingerprint"] for each in items}))}
    told = ((each["dead_letter_id"], _change(each, open_now.get(each["dead_letter_id"]))) for each in items)
    return [Change(letter_id, change) for letter_id, change in told if change]


def _open(client: Client, fingerprints: Sequence[str]) -> Iterator[Row]:
    for start in range(0, len(fingerprints), AT_ONCE):
        query = f"is:open,exhausted fp:{','.join(fingerprints[start : start + AT_ONCE])}"
        yield from client.pages(LETTERS, q=query, order="oldest")


def _change(item: Row, letter: Row | None) -> str:
    if letter is None or letter["fingerprint"] != item["fingerprint"]:
        return "it is not open any more, or has failed in another way"
    if (moment(letter["updated_at"]) or 0.0) > (moment(item["requested_at"]) or 0.0):
        return "it was changed since it was planned"
    return ""
