"""A dead letter as somebody pastes it into a ticket: what failed, why, what is known, and where it is."""

from __future__ import annotations

from collections.abc import Iterator

from redrive.model.dead_letter import DeadLetter
from redrive.policy.verdict import Verdict
from redrive.server.admin.headline import headline
from redrive.server.admin.stack import Stack
from redrive.server.admin.words import machine, plural, short


def ticket_of(letter: DeadLetter, verdict: Verdict, stack: Stack, address: str) -> str:
    """In Markdown, which reads well as plain text too."""
    return "\n".join(_lines(letter, verdict, stack, address))


def _lines(letter: DeadLetter, verdict: Verdict, stack: Stack, address: str) -> Iterator[str]:
    yield f"## {short(headline(letter.message, letter.error_type, letter.title), 200)}"
    yield ""
    place = f"{letter.workflow} › {letter.step}"
    yield " · ".join([place, letter.state.lower(), letter.category, letter.error_type])
    times = f"{plural(letter.attempts, 'attempt')}, {plural(letter.replay_count, 'replay')}"
    yield f"Failed {machine(letter.last_failed_at or letter.created_at)} after {times}"
    yield ""
    yield verdict.why
    yield from (f"- {each}" for each in verdict.changed)
    likely = "" if verdict.likely == "unknown" else f"{verdict.likely.capitalize()} to work: "
    yield f"{likely}{verdict.advice}"
    for frame in [frame for each in stack.raised for frame in each.application][:1]:
        yield ""
        yield f"At `{frame.file}:{frame.line}` in `{frame.function}`"
    yield ""
    yield f"Dead letter `{letter.id}`, run `{letter.run_id}`, correlation `{letter.correlation_id}`"
    yield address
    yield f"`redrive dlq view {letter.id}`"
