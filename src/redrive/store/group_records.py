"""Records of failure groups: what a list tells of each beside itself, and how its dead letters are spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from redrive.model.failure_group import GroupRecord, GroupShare
from redrive.store.database import Database
from redrive.store.statement import statements

MAX_REPLAYS = 1_000


class GroupKey(NamedTuple):
    org: str
    fingerprint: str
    most: int = MAX_REPLAYS


_SQL = statements("group_records", GroupKey)


async def records(database: Database, org: str, fingerprints: Sequence[str]) -> dict[str, GroupRecord]:
    """Of all of these at once. Replays are counted up to 1,000 of each kind."""
    rows = [GroupKey(org, each) for each in dict.fromkeys(fingerprints)]
    found = await database.fetch_many(_SQL["records"], rows) if rows else []
    return {row[0]: GroupRecord._make(row[1:]) for row in found}


async def spread(database: Database, org: str, fingerprint: str) -> list[GroupShare]:
    """All dead letters of one, exactly, however many there are."""
    found = await database.fetch(_SQL["spread"], {"org": org, "fingerprint": fingerprint})
    return [GroupShare._make(row) for row in found]
