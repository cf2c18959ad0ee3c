"""The page of one dead letter: the verdict, what can be done, and everything that is known about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Query
from starlette.responses import Response

from redrive.engine.run_view import AttemptView
from redrive.errors import NotFoundError
from redrive.failures.service import Failures
from redrive.model.dead_letter import CLOSED, DeadLetter, DeadLetterLine, DeadLetterState, version_of
from redrive.model.failure_group import GroupDetail
from redrive.model.query import Query as Question
from redrive.model.query import Term
from redrive.model.replay import OperationState, Replay, ReplayState
from redrive.policy.verdict import CAREFUL, Verdict
from redrive.server.admin.attempts import attempt_rows, chosen, compared_rows
from redrive.server.admin.environment import link
from redrive.server.admin.letter_history import history_of
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.admin.policy_words import policy_words
from redrive.server.admin.stack import stack_of
from redrive.server.admin.ticket import ticket_of
from redrive.server.admin.tree import tree_of
from redrive.server.api.request import Id
from redrive.server.api.resource import strings_in
from redrive.server.site import site_of

pages = Pages("letter")

Compared = Annotated[list[Annotated[str, Query(max_length=100)]] | None, Query(max_length=50)]


@pages.get("/dlq/{id}")
async def letter(page: OnPage, letter_id: Id, compare: Compared = None) -> Response:
    desk = await page.visit.desk()
    found = await desk.dead_letters.get(letter_id)
    verdict, replays = await desk.verdict(found.id), await desk.replays.of(found.id)
    return await page.render(
        "letter.html",
        place="dlq",
        letter=found,
        version=version_of(found),
        reaching=await _reaching(desk, replays),
        tags=strings_in(found.tags),
        verdict=verdict,
        advice=verdict.advice.removesuffix(CAREFUL).rstrip(),
        careful=CAREFUL if verdict.advice.endswith(CAREFUL) else "",
        **await _around(desk, found),
        **_attempts(await _attempts_of(page, found), compare),
        **_written(page, found, verdict),
        history=history_of(
            found,
            await desk.audit.about(found.id, found.created_at),
            replays,
            await desk.dead_letters.notes(found.id),
        ),
    )


async def _reaching(desk: Failures, replays: Iterable[Replay]) -> str | None:
    """The bulk replay that is under way, and has yet to begin it."""
    for each in replays:
        if each.state == ReplayState.PLANNED and each.operation_id is not None:
            operation = await desk.operations.get(each.operation_id)
            if operation.state in (OperationState.RUNNING, OperationState.PAUSED):
                return operation.id
    return None


async def _around(desk: Failures, letter: DeadLetter) -> dict[str, Any]:
    """What it waits for, and others like it."""
    dependencies = await desk.dead_letters.dependencies(letter.id)
    return {
        "dependencies": dependencies,
        "hindrance": _hindrance(letter, dependencies),
        "group": await _group(desk, letter),
        "related": await desk.dead_letters.related(letter.id),
        "alike": {
            name: str(Question((Term(name, (value,)),)))
            for name, value in (("workflow", letter.workflow), ("step", letter.step), ("queue", letter.queue))
        },
    }


def _attempts(attempts: Sequence[AttemptView], compare: list[str] | None) -> dict[str, Any]:
    asked = chosen(compare, attempts)
    return {
        "attempts": attempt_rows(attempts),
        "attempt_number": len(attempts),
        "comparison": compared_rows(attempts, asked.numbers),
        "compare_problem": asked.problem,
    }


def _written(page: Page, letter: DeadLetter, verdict: Verdict) -> dict[str, Any]:
    """What is made of the texts that were stored with it."""
    stack = stack_of(letter.stack)
    address = site_of(page.request.scope).origin(page.request) + link(f"/dlq/{letter.id}")
    return {
        "stack": stack,
        "payload": tree_of(letter.payload),
        "config": tree_of(letter.config),
        "metadata": tree_of(letter.metadata),
        "policy": policy_words(letter.policy),
        "redrive_policy": policy_words(letter.redrive_policy),
        "override": policy_words(letter.replay_override),
        "runbook": web_address(letter.runbook),
        "ticket": ticket_of(letter, verdict, stack, address),
    }


async def _attempts_of(page: Page, letter: DeadLetter) -> Sequence[AttemptView]:
    """None where the run is gone: a dead letter may be kept for longer."""
    try:
        found = await (await page.visit.runs()).attempts(letter.run_id)
    except NotFoundError:
        return ()
    return [each for each in found if each.step_index == letter.step_index]


async def _group(desk: Failures, letter: DeadLetter) -> GroupDetail | None:
    try:
        return await desk.groups.get(letter.fingerprint)
    except NotFoundError:
        return None


def _hindrance(letter: DeadLetter, dependencies: Sequence[DeadLetterLine]) -> str:
    """Why it cannot be replayed now; empty when it can."""
    if letter.state == DeadLetterState.REPLAYING:
        return "It is being replayed: wait for the outcome."
    if letter.state in CLOSED:
        return f"It is {letter.state.lower()}: reopen it to replay it."
    if any(each.state != DeadLetterState.RESOLVED for each in dependencies):
        return "It waits for another dead letter: see to that one first."
    return ""


def web_address(text: str | None) -> str:
    """The address, when it is one that a browser may be sent to; anything else stays a text."""
    try:
        parts = urlsplit(text or "")
    except ValueError:
        return ""
    return str(text) if parts.scheme in ("http", "https") and parts.netloc else ""
