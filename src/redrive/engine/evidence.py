"""Evidence: everything worth keeping of an exception, redacted and bounded. Making it cannot fail."""

from __future__ import annotations

from typing import NamedTuple

from redrive.engine.traceback_summary import Trail, is_alone, said, trail_of, whole_story
from redrive.model.failure import Category, ErrorClass, Failure
from redrive.policy import probe
from redrive.policy.classify import DEFAULT_CLASSIFIER, Classifier
from redrive.policy.codec import storable
from redrive.policy.fingerprint import Fingerprint, fingerprint
from redrive.policy.public_code import CATEGORY_CODES
from redrive.policy.redact import Redactor

MAX_MESSAGE_LENGTH = 4_000
MAX_STACK_LENGTH, MAX_SAID_LENGTH = 32_000, 8_000
MAX_TO_REDACT_LENGTH = 200_000


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
        stack = clean(gathered.stack, MAX_STACK_LENGTH, redactor)
        return _marked(gathered.failure, stack, gathered.fingerprint, gathered.where, redactor)
    failure = (classifier or DEFAULT_CLASSIFIER).classify(error, now=now)
    if (
        len(failure.message) > probe.MAX_TEXT_LENGTH
    ):  # it was cut, and half a secret is not recognised any more
        failure = failure._replace(message=probe.text(error, MAX_TO_REDACT_LENGTH))
    trail = trail_of(error)
    mark = fingerprint(
        error_type=failure.error_type,
        frames=trail.frames,
        step=step,
        status=failure.http_status,
        message=failure.message,
    )
    return _marked(failure, _stack(error, trail, redactor), mark, trail.where, redactor)


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
        category=category,
        error_class=error_class,
        rule=rule,
        error_type=rule,
        message=message,
        public_code=code,
        public_message=CATEGORY_CODES.message(code, category),
        retry_after=retry_after,
        unavailable=unavailable,
    )
    return Evidence(failure, "", fingerprint(error_type=rule, step=step, message=message))


def evidence_of_loss(worker: str, *, step: str) -> Evidence:
    return evidence_without_error(
        Category.CANCELLED,
        ErrorClass.RETRYABLE,
        "lease_lost",
        f"the worker {worker} has stopped renewing its lease: it died, or was cut off",
        step=step,
    )


def _marked(failure: Failure, stack: str, mark: Fingerprint, where: str, redactor: Redactor) -> Evidence:
    message = clean(failure.message, MAX_MESSAGE_LENGTH, redactor)
    marked = Fingerprint(mark.value, redactor.text(mark.reason), redactor.text(mark.title))
    return Evidence(failure._replace(message=message), stack, marked, where)


def _stack(error: BaseException, trail: Trail, redactor: Redactor) -> str:
    try:
        if not is_alone(error):
            return clean(whole_story(error), MAX_STACK_LENGTH, redactor)
        # Redacted apart: the way is the same again and again, what is said need not be.
        way = clean(trail.printed, MAX_STACK_LENGTH - MAX_SAID_LENGTH, redactor)
        return way + clean(said(error), MAX_STACK_LENGTH - len(way), redactor)
    except BaseException:  # noqa: BLE001 — an exception is anybody's code
        return "<the exception could not be printed>"


def clean(text: str, longest: int, redactor: Redactor) -> str:
    """Redact before the last cut: half a secret is not recognised any more."""
    redacted = _cut(redactor.text(_cut(text, MAX_TO_REDACT_LENGTH)), longest)
    if redacted.isascii() and "\x00" not in redacted:
        return redacted
    return str(storable(redacted)).replace("\x00", "␀").encode(errors="replace").decode()


def _cut(text: str, longest: int) -> str:
    """The head and the tail of a text that is too long, cut where a line ends."""
    if len(text) <= longest:
        return text
    head, tail = text[: longest // 2], text[-longest // 2 :]
    head = head.rpartition("\n")[0] or head
    tail = tail.partition("\n")[2] or tail
    return f"{head}\n… {len(text) - len(head) - len(tail):,} characters left out …\n{tail}"
