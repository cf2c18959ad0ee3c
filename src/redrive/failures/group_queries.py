"""Queries over failure groups: list, count and view them, with their occurrences over time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from redrive.clock import Clock
from redrive.duration import Seconds
from redrive.engine.id_lookup import the_only
from redrive.errors import InvalidValueError, NotFoundError
from redrive.model.caller import Caller
from redrive.model.failure_group import (
    GroupDetail,
    GroupLine,
    GroupPage,
    GroupRecord,
    GroupShare,
    GroupSort,
    Timeline,
)
from redrive.model.id import MAX_CANDIDATES, MIN_PREFIX_LENGTH, Candidate
from redrive.model.query import Count
from redrive.model.statistics import first_part, part_number
from redrive.policy.bounds import MAX_DELAY_SECONDS, choice, require_kind, require_seconds, require_whole
from redrive.policy.fingerprint import VERSION
from redrive.policy.query import parse
from redrive.policy.query_language import GROUPS
from redrive.store.groups import MAX_OVER_TIME
from redrive.store.store import Store

MAX_PAGE_SIZE = 500
MAX_BUCKETS = 1_000
MAX_SPARKLINES = 500
HOUR_SECONDS, HOURS = 3600, 24
MAX_FINGERPRINT_LENGTH = 200

_PREFIX = re.compile(rf"(v\d+:)?([0-9a-f]{{{MIN_PREFIX_LENGTH},40}})")


class GroupQueries:
    """Reads the failure groups of the caller's organization. No other groups are visible."""

    def __init__(self, store: Store, clock: Clock, caller: Caller) -> None:
        self._store = store
        self._clock = clock
        self._caller = caller

    async def list(
        self,
        query: str = "",
        *,
        sort: GroupSort | str = GroupSort.LAST_SEEN,
        size: int = 50,
        cursor: str | None = None,
    ) -> GroupPage:
        """A page of the groups that match the query (redrive.policy.query), in descending order of `sort`."""
        require_whole("size", size, 1, MAX_PAGE_SIZE)
        order = choice("sort", sort, GroupSort)
        return await self._store.groups.page(parse(query, GROUPS), self._caller.org, size, cursor, order)

    async def count(self, query: str = "") -> Count:
        """Count the groups that match the query, up to 10,000."""
        return await self._store.groups.count(parse(query, GROUPS), self._caller.org)

    async def view(self, fingerprint: str) -> GroupDetail:
        """A group, by its fingerprint or at least the first 6 digits of it."""
        found = await self._found(fingerprint)
        org, whole = self._caller.org, found.group.fingerprint
        groups = self._store.groups
        versions = tuple(await groups.versions(org, whole))
        sample = await groups.sample(found.group)
        return GroupDetail(*found, versions, sample, await groups.replays(org, whole))

    async def occurrences(
        self, fingerprint: str, *, seconds: Seconds = 86_400.0, buckets: int = 24
    ) -> Timeline:
        """Count the dead letters of a group in each of `buckets` equal parts of the last `seconds`."""
        seconds = require_seconds("seconds", seconds, 1.0, MAX_DELAY_SECONDS)
        require_whole("buckets", buckets, 1, MAX_BUCKETS)
        group = (await self._found(fingerprint)).group
        numbers = await self._store.groups.over_time(
            self._caller.org, group.fingerprint, float(seconds), buckets
        )
        capped = sum(numbers) >= MAX_OVER_TIME
        return Timeline(
            start=self._clock.now() - seconds, width=seconds / buckets, numbers=tuple(numbers), capped=capped
        )

    async def sparklines(self, fingerprints: Sequence[str]) -> dict[str, Timeline]:
        """Count the dead letters of several groups in each hour of the last day, with one query."""
        if len(fingerprints) > MAX_SPARKLINES:
            raise InvalidValueError(
                f"ask for the sparklines of at most {MAX_SPARKLINES} groups at once, got {len(fingerprints)}"
            )
        start = first_part(self._clock.now(), HOUR_SECONDS, HOURS)
        numbers = {fingerprint: [0] * HOURS for fingerprint in fingerprints}
        tallies, org = self._store.tallies, self._caller.org
        for fingerprint, place, number in await tallies.occurred(org, fingerprints, start, HOUR_SECONDS):
            numbers[fingerprint][part_number(place, HOURS)] += number
        return {
            fingerprint: Timeline(float(start), float(HOUR_SECONDS), tuple(hours))
            for fingerprint, hours in numbers.items()
        }

    async def records(self, fingerprints: Sequence[str]) -> dict[str, GroupRecord]:
        """The scheduled redrives and replay results of several groups, counted up to 1,000 each."""
        if len(fingerprints) > MAX_PAGE_SIZE:
            raise InvalidValueError(
                f"ask for the records of at most {MAX_PAGE_SIZE} groups at once, got {len(fingerprints)}"
            )
        return await self._store.groups.records(self._caller.org, fingerprints)

    async def spread(self, fingerprint: str) -> Sequence[GroupShare]:
        """Count the dead letters of a group by state and queue."""
        group = (await self._found(fingerprint)).group
        return await self._store.groups.spread(self._caller.org, group.fingerprint)

    async def _found(self, fingerprint: str) -> GroupLine:
        return await find_group(self._store, self._caller.org, fingerprint)


async def find_group(store: Store, org: str, fingerprint: str) -> GroupLine:
    """Find the group with this fingerprint, or the only group whose fingerprint starts with it."""
    require_kind("fingerprint", fingerprint, str)
    if not fingerprint.isprintable() or len(fingerprint) > MAX_FINGERPRINT_LENGTH:
        raise not_found(fingerprint[:MAX_FINGERPRINT_LENGTH])
    found = await store.groups.find(org, fingerprint, _prefix(fingerprint), MAX_CANDIDATES + 1)
    named = [line for line in found if line.group.fingerprint == fingerprint] or found
    candidates = [Candidate(group.fingerprint, group.title, group.last_seen) for group, *_ in named]
    if the_only("failure group", fingerprint, candidates) is None:
        raise not_found(fingerprint)
    return named[0]


def not_found(fingerprint: str) -> NotFoundError:
    return NotFoundError(
        f"found no failure group {fingerprint!r}; give its fingerprint, or at least the first "
        f"{MIN_PREFIX_LENGTH} digits of it"
    )


def _prefix(fingerprint: str) -> str | None:
    """Return the prefix to search for, with a version: the caller may omit it."""
    found = _PREFIX.fullmatch(fingerprint)
    return None if found is None else (found[1] or f"{VERSION}:") + found[2]
