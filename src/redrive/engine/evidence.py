"""Evidence: everything worth keeping of an exception, redacted and bounded. Making it cannot fail."""

from __future__ import annotations

import traceback
from pathlib import PurePath
from types import TracebackType
from typing import NamedTuple

from redrive.model.failure import Category, ErrorClass, Failure
from redrive.policy.classify import DEFAULT_CLASSIFIER, Classifier
from redrive.policy.codec import storable
from redrive.policy.fingerprint import Fingerprint, fingerprint, fingerprint_of, frames_of
from redrive.policy.public_code import CATEGORY_CODES
from redrive.policy.redact import Redactor

LONGEST_MESSAGE = 4_000
LONGEST_STACK = 32_000
LONGEST_TO_REDACT = 200_000
MOST_FRAMES = 60


class Evidence(NamedTuple):
    """`where` is the innermost line of the application that the error passed."""

    failure: Failure
    stack: str
    fingerprint: Fingerprint
    where: str = ""


def evidence_of(
    error: BaseException, *, classifier: Classifier | None, redactor: Redactor, step: str, now: float
) -> Evidence:
    gathered = error.__dict__.get("evidence")
    if isinstance(gathered, Evidence):  # where the error was raised: in a process of its own
        return _redacted(gathered, redactor)
    failure = (classifier or DEFAULT_CLASSIFIER).classify(error, now=now)
    mark = fingerprint_of(error, step=step, status=failure.http_status)
    return _redacted(Evidence(failure, _stack(error), mark, _where(error)), redactor)


def evidence_without_error(
    category: Category,
    error_class: ErrorClass,
    rule: str,
    message: str,
    *,
    step: str,
    unavailable: bool = False,
    retry_after: float | None = None,
) -> Evidence:
    """For what no exception tells: a lost lease, an open breaker, a task that is not known here."""
    code = rule.upper()
    failure = Failure(
        category,
        error_class,
        rule,
        rule,
        message,
        code,
        CATEGORY_CODES.message(code, category),
        retry_after=retry_after,
        unavailable=unavailable,
    )
    return Evidence(failure, "", fingerprint(error_type=rule, step=step, message=message))


def _redacted(evidence: Evidence, redactor: Redactor) -> Evidence:
    failure, mark = evidence.failure, evidence.fingerprint
    message = _clean(failure.message, LONGEST_MESSAGE, redactor)
    stack = _clean(evidence.stack, LONGEST_STACK, redactor)
    marked = Fingerprint(mark.value, redactor.text(mark.reason), redactor.text(mark.title))
    return Evidence(failure._replace(message=message), stack, marked, evidence.where)


def _where(error: BaseException) -> str:
    for frame in frames_of(error):
        if frame.application:
            return f"{PurePath(frame.file).name}:{frame.line} in {frame.function}"
    return ""


def _stack(error: BaseException) -> str:
    try:
        story = traceback.TracebackException(
            type(error), error, _from_the_task_on(error.__traceback__), limit=-MOST_FRAMES, compact=True
        )
        return "".join(story.format())
    except BaseException:  # noqa: BLE001 — an exception is anybody's code
        return "<the exception could not be printed>"


def _from_the_task_on(trace: TracebackType | None) -> TracebackType | None:
    """Without the frames in which Redrive calls the task."""
    own = trace
    while own is not None and str(own.tb_frame.f_globals.get("__name__")).startswith("redrive."):
        own = own.tb_next
    return trace if own is None else own


def _clean(text: str, longest: int, redactor: Redactor) -> str:
    """Redact before the last cut: half a secret is not recognised any more."""
    redacted = redactor.text(_cut(text, LONGEST_TO_REDACT))
    return str(storable(_cut(redacted, longest))).replace("\x00", "␀").encode(errors="replace").decode()


def _cut(text: str, longest: int) -> str:
    """The head and the tail of a text that is too long, cut where a line ends."""
    if len(text) <= longest:
        return text
    head, tail = text[: longest // 2], text[-longest // 2 :]
    head = head.rpartition("\n")[0] or head
    tail = tail.partition("\n")[2] or tail
    return f"{head}\n… {len(text) - len(head) - len(tail):,} characters left out …\n{tail}"
