"""Failure groups: all failures with the same fingerprint, and their triage state."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field
from starlette.responses import Response

from redrive.failures.group_queries import MAX_BUCKETS
from redrive.failures.groups import MAX_LETTERS
from redrive.model.failure_group import (
    FailureGroup,
    GroupDetail,
    GroupLine,
    GroupResolution,
    GroupSort,
    GroupState,
    GroupVersion,
    LetterCounts,
    Timeline,
)
from redrive.model.query import TEXT, Term
from redrive.model.query import Query as GroupQuery
from redrive.policy.access import Permission
from redrive.policy.bounds import MAX_DELAY_SECONDS
from redrive.policy.query import parse
from redrive.policy.query_language import GROUPS
from redrive.server.access_control import may
from redrive.server.answer import answer, etag, page
from redrive.server.api.request import (
    Cursor,
    IfMatch,
    QueryText,
    Reason,
    Reasoned,
    RequestBody,
    Size,
    Timestamp,
    at_most,
    reason_of,
    unchanged,
    versions,
)
from redrive.server.api.resource import COUNT, Resource
from redrive.server.request_context import CallersFailures, Visiting
from redrive.server.route import Routes

Fingerprint = Annotated[
    str,
    Path(min_length=1, max_length=200, description="The full fingerprint, or at least its first 6 digits"),
]

routes = Routes("groups", "/api/v1/groups")
MAX_TEXT_LENGTH = 200
READ, OPERATE = may(Permission.READ), may(Permission.OPERATE)


class GroupResolving(RequestBody):
    """With `dead_letters`, up to 10,000 open dead letters of the group are resolved too.

    `expect` is their number. If it does not match, nothing changes.
    """

    reason: Reason = ""
    dead_letters: bool = False
    expect: Annotated[int | None, Field(ge=0, le=MAX_LETTERS)] = None


class GroupIgnoring(RequestBody):
    """Conditions that end the ignored state: a time, further occurrences, another code version."""

    reason: Reason = ""
    until: Timestamp | None = None
    beyond: Annotated[int | None, Field(ge=1, le=10**9)] = None
    version: Annotated[str | None, Field(min_length=1, max_length=100)] = None


LETTERS = Resource(
    LetterCounts,
    "LetterCountsShape",
    description="Number of dead letters in each state.",
    properties=("live",),
)
VERSION = Resource(GroupVersion, "GroupVersionShape")
GROUP = Resource(
    FailureGroup,
    "GroupStandingShape",
    description=(
        "All failures with the same fingerprint. `reason` says why they are grouped; `version` is the ETag."
    ),
    hidden=("org", "sample"),
    properties=("version",),
)
LINE = Resource(GroupLine, "GroupLineShape", flattened=("group",), renamed={"letters": "dead_letters"})
DETAIL = Resource(
    GroupDetail,
    "GroupShape",
    description="A failure group. `sample` is its newest dead letter; `replays` counts its replays by state.",
    flattened=("group",),
    renamed={"letters": "dead_letters"},
)
RESOLUTION = Resource(
    GroupResolution,
    "ResolutionShape",
    description=(
        "The resolved group. `resolved` is the number of dead letters resolved with it, `ids` their ids; "
        "`remaining` more are still open."
    ),
    flattened=("group",),
    properties=("letters",),
    renamed={"letters": "resolved"},
)
TIMELINE = Resource(
    Timeline,
    "TimelineShape",
    description=(
        "New dead letters in each interval of `seconds`. If `capped` is true, earlier ones may be missing."
    ),
    renamed={"width": "seconds"},
)


@routes.get("", READ, returns=LINE.page("GroupPage"))
async def list_(
    visit: Visiting,
    q: QueryText = "",
    state: Annotated[GroupState | None, Query(description="Same as group: in q")] = None,
    text: Annotated[str, Query(max_length=MAX_TEXT_LENGTH, description="Same as a text in q")] = "",
    sort: Annotated[GroupSort, Query()] = GroupSort.LAST_SEEN,
    size: Size = 50,
    cursor: Cursor = None,
) -> Response:
    """List failure groups that match a query, latest or most frequent first."""
    groups = visit.failures.groups
    asked = _asked(q, state, text)
    found = await groups.list(asked, sort=sort, size=at_most(size, visit), cursor=cursor)
    return page(LINE.views(found.lines), found.next_cursor)


@routes.get("/count", READ, returns=COUNT.model)
async def count(failures: CallersFailures, q: QueryText = "") -> Response:
    """Count failure groups that match a query, up to 10,000."""
    return answer(COUNT.view(await failures.groups.count(q)))


@routes.get("/{fingerprint}", READ, returns=DETAIL.model)
async def get(failures: CallersFailures, fingerprint: Fingerprint) -> Response:
    """Get a failure group with its dead letters by state, its versions and its replays."""
    found = await failures.groups.view(fingerprint)
    return answer(DETAIL.view(found), headers=etag(found.group.version))


@routes.get("/{fingerprint}/occurrences", READ, returns=TIMELINE.model)
async def occurrences(
    failures: CallersFailures,
    fingerprint: Fingerprint,
    seconds: Annotated[float, Query(ge=1, le=MAX_DELAY_SECONDS, allow_inf_nan=False)] = 86_400.0,
    buckets: Annotated[int, Query(ge=1, le=MAX_BUCKETS)] = 24,
) -> Response:
    """Count the new dead letters of a group over time."""
    found = await failures.groups.occurrences(fingerprint, seconds=seconds, buckets=buckets)
    return answer(TIMELINE.view(found))


@routes.post("/{fingerprint}/acknowledge", OPERATE, returns=GROUP.model)
async def acknowledge(
    failures: CallersFailures,
    fingerprint: Fingerprint,
    body: Reasoned | None = None,
    if_match: IfMatch = None,
) -> Response:
    """Acknowledge a group: someone is working on it."""
    with unchanged():
        group = await failures.groups.acknowledge(fingerprint, reason_of(body), read=versions(if_match))
    return answer(GROUP.view(group), headers=etag(group.version))


@routes.post("/{fingerprint}/resolve", OPERATE, returns=RESOLUTION.model)
async def resolve(
    failures: CallersFailures,
    fingerprint: Fingerprint,
    body: GroupResolving | None = None,
    if_match: IfMatch = None,
) -> Response:
    """Mark a group as resolved. If the failure occurs again, the group reopens as regressed."""
    asked = body or GroupResolving()
    with unchanged():
        done = await failures.groups.resolve(
            fingerprint,
            asked.reason,
            letters=asked.dead_letters,
            expect=asked.expect,
            read=versions(if_match),
        )
    return answer(RESOLUTION.view(done), headers=etag(done.group.version))


@routes.post("/{fingerprint}/ignore", OPERATE, returns=GROUP.model)
async def ignore(
    failures: CallersFailures,
    fingerprint: Fingerprint,
    body: GroupIgnoring | None = None,
    if_match: IfMatch = None,
) -> Response:
    """Ignore a group until one of the conditions is met or it is reopened."""
    asked = body or GroupIgnoring()
    with unchanged():
        group = await failures.groups.ignore(
            fingerprint,
            asked.reason,
            until=asked.until,
            beyond=asked.beyond,
            version=asked.version,
            read=versions(if_match),
        )
    return answer(GROUP.view(group), headers=etag(group.version))


@routes.post("/{fingerprint}/reopen", OPERATE, returns=GROUP.model)
async def reopen(
    failures: CallersFailures,
    fingerprint: Fingerprint,
    body: Reasoned | None = None,
    if_match: IfMatch = None,
) -> Response:
    """Reopen a group that is acknowledged, resolved or ignored."""
    with unchanged():
        group = await failures.groups.reopen(fingerprint, reason_of(body), read=versions(if_match))
    return answer(GROUP.view(group), headers=etag(group.version))


def _asked(q: str, state: GroupState | None, text: str) -> str:
    """Parse `q` first, so that errors name the position in it."""
    terms = list(parse(q, GROUPS).terms)
    if state is not None:
        terms.append(Term("group", (state.lower(),)))
    if text:
        terms.append(Term(TEXT, (text,)))
    return str(GroupQuery(tuple(terms)))
