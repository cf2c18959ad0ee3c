"""The audit page: a filterable list of actions, and the state of the hash chain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from fastapi import Query
from starlette.responses import Response

from redrive.errors import InvalidValueError
from redrive.failures.audit import Audit, AuditEntry, AuditPage
from redrive.model.audit import Action
from redrive.model.id import short_id
from redrive.server.admin.environment import link, segment
from redrive.server.admin.page import OnPage, Pages
from redrive.server.api.request import Cursor
from redrive.words.audit import AuditLine, describe_detail, describe_entry, describe_fold, fold_entries
from redrive.words.failure import short
from redrive.words.folds import Fold

pages = Pages("audit")

PAGE_SIZE, READ = 50, 200
"""Rows of a page, and the entries that are read for them."""
MAX_SUBJECTS, MAX_DETAILS = 3, 12
SPANS = {"1h": 3_600.0, "24h": 86_400.0, "7d": 604_800.0, "30d": 2_592_000.0}
_MOMENTS = ("_at", "until", "since")
_ID = re.compile(r"(v\d+:)?[0-9a-f]{32,}")
_PLACES = {"dead_letter": "/dlq/", "replay": "/dlq/", "operation": "/replays/", "run": "/runs/"} | {
    "group": "/dlq/groups/"
}

Word = Annotated[str, Query(max_length=200)]
Kind = Annotated[str, Query(max_length=60)]


class AuditRow(NamedTuple):
    """A row of the list: an entry, or all entries of a bulk replay, of which `entry` is the newest.

    subjects  the first of them, with the addresses of their pages; `more` counts the rest
    detail    values by name; a number is a time; of a bulk replay, those of its oldest entry, its plan
    entries   the entries of a bulk replay, each with its sentence
    """

    entry: AuditEntry
    line: AuditLine
    subjects: list[tuple[str, str]]
    more: int
    detail: list[tuple[str, str | float]]
    entries: list[tuple[AuditEntry, str]]


@pages.get("/audit")
async def audit(
    page: OnPage,
    action: Kind = "",
    actor: Word = "",
    subject: Word = "",
    since: Annotated[str, Query(max_length=10)] = "",
    cursor: Cursor = None,
) -> Response:
    audit, problem = page.visit.failures.audit, ""
    try:
        found = await _found(audit, page.now, action, actor, subject, since, cursor)
    except InvalidValueError as error:
        found, problem = AuditPage([], None), str(error)
    folds, used = fold_entries(found.entries, PAGE_SIZE)
    cut = str(found.entries[used - 1].sequence) if used < len(found.entries) else found.next_cursor
    chosen = {"action": action, "actor": actor, "subject": subject, "since": since}
    return await page.render(
        "audit.html",
        place="audit",
        status=422 if problem else 200,
        rows=[_row(entries, operation) for entries, operation in folds],
        actions=[str(known) for known in Action],
        spans=tuple(SPANS),
        chosen=chosen,
        problem=problem,
        head=await audit.head(),
        first=link("/audit", chosen) if cursor else "",
        next=link("/audit", chosen, cursor=cut) if cut else "",
    )


async def _found(
    audit: Audit, now: float, action: str, actor: str, subject: str, since: str, cursor: str | None
) -> AuditPage:
    if since and since not in SPANS:
        raise InvalidValueError(f"unknown time range {since!r:.100}; use one of {', '.join(SPANS)}")
    return await audit.list(
        action=action or None,
        actor=actor or None,
        subject=subject or None,
        since=now - SPANS[since] if since else None,
        size=READ,
        cursor=cursor,
    )


def _row(entries: Fold[AuditEntry], operation: str | None) -> AuditRow:
    line = describe_fold(entries, operation)
    entry, links = entries.first, list(_links(entries.first))
    if operation is not None:
        entry, links = entries.rows[-1], [(operation, link(f"{_PLACES['operation']}{segment(operation)}"))]
    detail = [_pair(name, value) for name, value in entry.detail.items() if value not in (None, "", [], {})]
    return AuditRow(
        entries.first,
        line,
        links[:MAX_SUBJECTS],
        len(links) - MAX_SUBJECTS,
        detail[:MAX_DETAILS],
        [(entry, describe_entry(entry)) for entry in entries.rows] if entries.others else [],
    )


def _pair(name: str, value: Any) -> tuple[str, str | float]:
    """Return a value with its name; a time as a number."""
    label, text = describe_detail(name, value)
    if name.endswith(_MOMENTS) and isinstance(value, int | float) and not isinstance(value, bool):
        return label, float(value)
    return label, short_id(text) if _ID.fullmatch(text) else short(text)


def _links(entry: AuditEntry) -> Iterator[tuple[str, str]]:
    """Yield each subject and the address of its page; the subject of a replay is a dead letter."""
    place = _PLACES.get(entry.action.partition(".")[0])
    for subject in entry.subjects:
        yield subject, link(f"{place}{segment(subject)}") if place else ""
