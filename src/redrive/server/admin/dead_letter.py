"""A dead letter: its row in lists, and its page with the verdict, the actions and its whole history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from fastapi import Query
from starlette.responses import Response

from redrive.engine.run_view import AttemptView
from redrive.engine.runs import Story
from redrive.errors import NotFoundError
from redrive.failures.audit import AuditEntry
from redrive.failures.service import Failures
from redrive.model.caller import SELF
from redrive.model.dead_letter import (
    ACTIONABLE,
    CLOSED,
    DeadLetter,
    DeadLetterLine,
    DeadLetterState,
    Note,
    version_of,
)
from redrive.model.failure_group import GroupDetail
from redrive.model.query import Query as LetterQuery
from redrive.model.query import Term
from redrive.model.replay import OperationState, Replay, ReplayState
from redrive.policy.description import describe_stored_policy
from redrive.policy.stack import Stack, stack_of
from redrive.policy.verdict import ReplayVerdict
from redrive.server.admin.attempts import attempt_rows, compare_attempts, pair_of
from redrive.server.admin.environment import link
from redrive.server.admin.event_origin import origin_of_letter
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.admin.tree import tree_of
from redrive.server.api.request import LetterId
from redrive.server.site import site_of
from redrive.words.decision import why
from redrive.words.fact import paragraph, text_of
from redrive.words.failure import headline, short
from redrive.words.folds import fold, letter_look
from redrive.words.history import LISTED_ELSEWHERE, describe_action, describe_closing, describe_replay
from redrive.words.number import plural
from redrive.words.state import letter_state, status
from redrive.words.time import machine

pages = Pages("dead_letter")

MAX_FOLDS = 5
"""Related dead letters of each kind that the page shows, not counting those that look the same."""

AttemptNumbers = Annotated[list[Annotated[str, Query(max_length=100)]] | None, Query(max_length=50)]


class LetterRow(NamedTuple):
    """`state` is SCHEDULED for an open dead letter that will be redriven automatically."""

    line: DeadLetterLine
    state: str
    tags: Sequence[str]
    can_act: bool
    is_closed: bool


def row_of(line: DeadLetterLine) -> LetterRow:
    state = letter_state(line)
    return LetterRow(line, state, line.tags, line.state in ACTIONABLE, line.state in CLOSED)


@pages.get("/dlq/{id}")
async def dead_letter(page: OnPage, letter_id: LetterId, compare: AttemptNumbers = None) -> Response:
    failures = page.visit.failures
    letter = await failures.view(letter_id)
    verdict, replays = await failures.verdict(letter.id), await failures.replays.list(letter.id)
    story = await _story_of(page, letter)
    return await page.render(
        "letter.html",
        place="dlq",
        letter=letter,
        version=version_of(letter),
        planned_in=await _planned_in(failures, replays),
        step_count=len(story.steps) if story is not None else None,
        tags=letter.tags,
        origin=await origin_of_letter(page, letter),
        how_closed=describe_closing(letter.state, letter.resolved_by, letter.resolution),
        verdict=verdict,
        **await _surroundings(failures, letter),
        **_attempts(_attempts_of(letter, story), compare),
        **_stored_texts(page, letter, verdict),
        history=history_of(
            letter,
            await failures.audit.about(letter.id, letter.created_at),
            replays,
            await failures.notes(letter.id),
        ),
    )


async def _planned_in(failures: Failures, replays: Iterable[Replay]) -> str | None:
    """Return the id of the bulk replay in progress that has yet to start this one."""
    for replay in replays:
        if replay.state == ReplayState.PLANNED and replay.operation_id is not None:
            operation = await failures.plans.view(replay.operation_id)
            if operation.state in (OperationState.RUNNING, OperationState.PAUSED):
                return operation.id
    return None


async def _surroundings(failures: Failures, letter: DeadLetter) -> dict[str, Any]:
    """Return its dependencies, its group, and related dead letters."""
    dependencies, related = await failures.dependencies(letter.id), await failures.related(letter.id)
    return {
        "dependencies": dependencies,
        "obstacle": _obstacle(letter, dependencies),
        "group": await _group(failures, letter),
        "related": {
            "Depends on": fold(dependencies, letter_look),
            "Same run": fold(related.same_run, letter_look)[:MAX_FOLDS],
            "Same correlation ID": fold(related.same_correlation, letter_look)[:MAX_FOLDS],
            "Same failure": fold(related.same_failure, letter_look)[:MAX_FOLDS],
        },
        "alike": {
            name: str(LetterQuery((Term(name, (value,)),)))
            for name, value in (("workflow", letter.workflow), ("step", letter.step), ("queue", letter.queue))
        },
    }


async def _group(failures: Failures, letter: DeadLetter) -> GroupDetail | None:
    try:
        return await failures.groups.view(letter.fingerprint)
    except NotFoundError:
        return None


def _obstacle(letter: DeadLetter, dependencies: Sequence[DeadLetterLine]) -> str:
    """Return why it cannot be replayed now; empty if it can."""
    if letter.state == DeadLetterState.REPLAYING:
        return "A replay is in progress. Wait for the outcome."
    if letter.state in CLOSED:
        return f"It is {status(letter.state)}. Reopen it to replay it."
    if any(other.state != DeadLetterState.RESOLVED for other in dependencies):
        return "It depends on a dead letter that is not resolved yet:"
    return ""


async def _story_of(page: Page, letter: DeadLetter) -> Story | None:
    """Return the steps and attempts of its run; None if the run was removed before the dead letter."""
    try:
        return await page.visit.runs.story(letter.run_id)
    except NotFoundError:
        return None


def _attempts_of(letter: DeadLetter, story: Story | None) -> Sequence[AttemptView]:
    attempts = story.attempts if story is not None else ()
    return [attempt for attempt in attempts if attempt.step_index == letter.step_index]


def _attempts(attempts: Sequence[AttemptView], numbers: list[str] | None) -> dict[str, Any]:
    pair = pair_of(numbers, attempts)
    by_number = {attempt.number: attempt for attempt in attempts}
    return {
        "attempts": attempt_rows(attempts),
        "attempt_number": len(attempts),
        "comparison": compare_attempts(*(by_number[number] for number in pair.numbers))
        if pair.numbers
        else None,
        "compare_problem": pair.problem,
    }


def _stored_texts(page: Page, letter: DeadLetter, verdict: ReplayVerdict) -> dict[str, Any]:
    stack = stack_of(letter.stack)
    address = site_of(page.request.scope).origin(page.request) + link(f"/dlq/{letter.id}")
    return {
        "stack": stack,
        "payload": tree_of(letter.payload),
        "config": tree_of(letter.config),
        "metadata": tree_of(letter.metadata),
        "policy": describe_stored_policy(letter.policy),
        "redrive_policy": describe_stored_policy(letter.redrive_policy),
        "override": describe_stored_policy(letter.replay_override),
        "runbook": web_address(letter.runbook),
        "ticket": "\n".join(ticket_lines(letter, verdict, stack, address)),
    }


def web_address(text: str | None) -> str:
    """Return the text if it is an http or https address, otherwise an empty string."""
    try:
        parts = urlsplit(text or "")
    except ValueError:
        return ""
    return str(text) if parts.scheme in ("http", "https") and parts.netloc else ""


def ticket_lines(letter: DeadLetter, verdict: ReplayVerdict, stack: Stack, address: str) -> Iterator[str]:
    """Yield a text to paste into a ticket: Markdown that reads well as plain text too."""
    yield f"## {short(headline(letter.message, letter.error_type, letter.title), 200)}"
    yield ""
    place = f"{letter.workflow} › {letter.step}"
    yield " · ".join([place, status(letter.state), letter.category, letter.error_type])
    times = f"{plural(letter.attempts, 'attempt')}, {plural(letter.replay_count, 'replay')}"
    yield f"Failed {machine(letter.last_failed_at or letter.created_at)} after {times}"
    yield ""
    yield text_of(verdict.why)
    yield from (f"- {text_of(change)}" for change in verdict.changed)
    likely = "" if verdict.likely == "unknown" else f"A replay is {verdict.likely} to succeed. "
    yield f"{likely}{paragraph(verdict.advice)}"
    for frame in [frame for raised in stack.exceptions for frame in raised.application][:1]:
        yield ""
        yield f"At `{frame.file}:{frame.line}` in `{frame.function}`"
    yield ""
    yield f"Dead letter `{letter.id}`, run `{letter.run_id}`, correlation ID `{letter.correlation_id}`"
    yield address
    yield f"`redrive dlq view {letter.id}`"


class HistoryEvent(NamedTuple):
    """An entry in the history of a dead letter.

    text       a reason, a note or the outcome
    state      of a replay
    note       whether it is a note
    operation  the bulk replay that a replay belongs to
    together   number of dead letters that the action changed at once
    """

    at: float
    who: str
    what: str
    text: str = ""
    state: str = ""
    note: bool = False
    operation: str = ""
    together: int = 1


def history_of(
    letter: DeadLetter, entries: Iterable[AuditEntry], replays: Iterable[Replay], notes: Iterable[Note]
) -> Sequence[HistoryEvent]:
    """Return the history of a dead letter, newest first."""
    events = [
        HistoryEvent(letter.created_at, SELF, "created the dead letter", why(letter.decision)),
        *(_action_event(entry) for entry in entries if entry.action not in LISTED_ELSEWHERE),
        *(_replay_event(replay) for replay in replays),
        *(HistoryEvent(note.at, note.author, "added a note", note.body, note=True) for note in notes),
    ]
    return sorted(events, key=lambda event: -event.at)


def _action_event(entry: AuditEntry) -> HistoryEvent:
    what, text = describe_action(entry.action, entry.detail, entry.actor)
    return HistoryEvent(entry.at, entry.actor, what, text, together=max(1, len(entry.subjects)))


def _replay_event(replay: Replay) -> HistoryEvent:
    what, text = describe_replay(
        replay.mode,
        replay.state,
        automatic=bool(replay.automatic),
        changed=[change["path"] for change in replay.edit or ()],
        reason=replay.reason,
        note=None if replay.note is None else text_of(replay.note),
        started=replay.started_at is not None,
    )
    return HistoryEvent(
        replay.requested_at,
        replay.requested_by,
        what,
        text,
        replay.state,
        operation=replay.operation_id or "",
    )
