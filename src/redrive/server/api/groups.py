"""Failure groups: all failures of one fingerprint, and what people say about them."""

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
    str, Path(min_length=1, max_length=200, description="Whole, or at least 6 digits of its beginning")
]

routes = Routes("groups", "/api/v1/groups")
MAX_TEXT_LENGTH = 200
READ, OPERATE = may(Permission.READ), may(Permission.OPERATE)


class GroupResolving(RequestBody):
    """With `dead_letters`, up to 10,000 of its open ones are resolved too.

    `expect` is how many these are: if they are not as many, nothing is changed.
    """

    reason: Reason = ""
    dead_letters: bool = False
    expect: Annotated[int | None, Field(ge=0, le=MAX_LETTERS)] = None


class GroupIgnoring(RequestBody):
    """Until one of these is met: a moment, more occurrences than so many, another version of the code."""

    reason: Reason = ""
    until: Timestamp | None = None
    beyond: Annotated[int | None, Field(ge=1, le=10**9)] = None
    version: Annotated[str | None, Field(min_length=1, max_length=100)] = None


LETTERS = Resource(
    LetterCounts,
    "LetterCountsShape",
    description="How many of its dead letters are in each state.",
    properties=("live",),
)
VERSION = Resource(GroupVersion, "GroupVersionShape")
GROUP = Resource(
    FailureGroup,
    "GroupStandingShape",
    description=(
        "All failures of one fingerprint. `reason` tells why they are taken for one; `version` is its ETag."
    ),
    hidden=("org", "sample"),
    properties=("version",),
)
LINE = Resource(GroupLine, "GroupLineShape", flattened=("group",), renamed={"letters": "dead_letters"})
DETAIL = Resource(
    GroupDetail,
    "GroupShape",
    description="`sample` is its newest dead letter; `replays` counts those of this failure by state.",
    flattened=("group",),
    renamed={"letters": "dead_letters"},
)
RESOLUTION = Resource(
    GroupResolution,
    "ResolutionShape",
    description=(
        "`resolved` dead letters were resolved with it, by these `ids`; `left` could be, and were not."
    ),
    flattened=("group",),
    properties=("letters",),
    renamed={"letters": "resolved"},
)
TIMELINE = Resource(
    Timeline,
    "TimelineShape",
    description=(
        "How many of its dead letters came in each part of `seconds`. `capped`: earlier ones may be missing."
    ),
    renamed={"width": "seconds"},
)


@routes.get("", READ, returns=LINE.page("GroupPage"))
async def list_(
    visit: Visiting,
    q: QueryText = "",
    state: Annotated[GroupState | None, Query(description="The same as group: in q")] = None,
    text: Annotated[str, Query(max_length=MAX_TEXT_LENGTH, description="The same as a text in q")] = "",
    sort: Annotated[GroupSort, Query()] = GroupSort.LAST_SEEN,
    size: Size = 50,
    cursor: Cursor = None,
) -> Response:
    """The latest or the most frequent first, with the exact numbers of their dead letters."""
    groups = visit.failures.groups
    asked = _asked(q, state, text)
    found = await groups.list(asked, sort=sort, size=at_most(size, visit), cursor=cursor)
    return page(LINE.views(found.lines), found.next_cursor)


@routes.get("/count", READ, returns=COUNT.model)
async def count(failures: CallersFailures, q: QueryText = "") -> Response:
    """How many fulfil a query; counted up to 10,000."""
    return answer(COUNT.view(await failures.groups.count(q)))


@routes.get("/{fingerprint}", READ, returns=DETAIL.model)
async def get(failures: CallersFailures, fingerprint: Fingerprint) -> Response:
    """One group with all that is known about it."""
    found = await failures.groups.view(fingerprint)
    return answer(DETAIL.view(found), headers=etag(found.group.version))


@routes.get("/{fingerprint}/occurrences", READ, returns=TIMELINE.model)
async def occurrences(
    failures: CallersFailures,
    fingerprint: Fingerprint,
    seconds: Annotated[float, Query(ge=1, le=MAX_DELAY_SECONDS, allow_inf_nan=False)] = 86_400.0,
    buckets: Annotated[int, Query(ge=1, le=MAX_BUCKETS)] = 24,
) -> Response:
    """When its dead letters came, over the last seconds."""
    found = await failures.groups.occurrences(fingerprint, seconds=seconds, buckets=buckets)
    return answer(TIMELINE.view(found))


@routes.post("/{fingerprint}/acknowledge", OPERATE, returns=GROUP.model)
async def acknowledge(
    failures: CallersFailures,
    fingerprint: Fingerprint,
    body: Reasoned | None = None,
    if_match: IfMatch = None,
) -> Response:
    """Say that somebody looks after it."""
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
    """Say that its cause is gone: when it occurs again it is open, and has regressed."""
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
    """Say that nobody need look, until one of the conditions is met or it is reopened."""
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
    """Undo what was said about it."""
    with unchanged():
        group = await failures.groups.reopen(fingerprint, reason_of(body), read=versions(if_match))
    return answer(GROUP.view(group), headers=etag(group.version))


def _asked(q: str, state: GroupState | None, text: str) -> str:
    """Read by itself first: what is wrong in the query is told with its place in it."""
    terms = list(parse(q, GROUPS).terms)
    if state is not None:
        terms.append(Term("group", (state.lower(),)))
    if text:
        terms.append(Term(TEXT, (text,)))
    return str(GroupQuery(tuple(terms)))
