"""Evidence: what is kept of an exception, redacted and bounded. Gathering it cannot fail."""

from __future__ import annotations

import traceback
from pathlib import PurePath
from types import CodeType, TracebackType
from typing import NamedTuple

from redrive.model.failure import Category, ErrorClass, Failure
from redrive.policy import exception
from redrive.policy.classify import DEFAULT_CLASSIFIER, Classifier
from redrive.policy.codec import storable
from redrive.policy.fingerprint import Fingerprint, TraceFrame, fingerprint, frames_of, traceback_of
from redrive.policy.public_code import CATEGORY_CODES
from redrive.policy.redact import Redactor

MAX_MESSAGE_LENGTH = 4_000
MAX_STACK_LENGTH, MAX_EXCEPTION_LENGTH = 32_000, 8_000
MAX_TO_REDACT_LENGTH = 200_000
MAX_FRAMES = 60
MAX_LINKS = 8
MAX_REMEMBERED, MAX_REMEMBERED_LENGTH = 256, 20_000

_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"
_CodePath = tuple[tuple[str, str, CodeType, int], ...]


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
    if len(failure.message) > exception.MAX_TEXT_LENGTH:  # cut, and half a secret is not recognised any more
        failure = failure._replace(message=exception.text(error, MAX_TO_REDACT_LENGTH))
    summary = _summary_of(error)
    mark = fingerprint(
        error_type=failure.error_type,
        frames=summary.frames,
        step=step,
        status=failure.http_status,
        message=failure.message,
    )
    return _marked(failure, _stack(error, summary, redactor), mark, summary.where, redactor)


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
    """For failures without an exception: a lost lease, an open breaker, an unknown task."""
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


def _stack(error: BaseException, summary: TracebackSummary, redactor: Redactor) -> str:
    try:
        if not _is_single(error):
            return _chain(error, summary, redactor)
        # Redacted apart: the traceback is the same again and again, the message need not be.
        printed = clean(summary.printed, MAX_STACK_LENGTH - MAX_EXCEPTION_LENGTH, redactor)
        return printed + clean(_exception_lines(error), MAX_STACK_LENGTH - len(printed), redactor)
    except BaseException:  # noqa: BLE001 — an exception is anybody's code
        return "<the exception could not be printed>"


def _chain(error: BaseException, summary: TracebackSummary, redactor: Redactor) -> str:
    """Print the error with its causes. Most parts are the same again and again, as in `_stack`."""
    links = _links(error)
    if not links:
        return clean(_full_traceback(error), MAX_STACK_LENGTH, redactor)
    parts = _printed_links(links, summary)
    text = "".join(parts)
    if len(text) <= MAX_TO_REDACT_LENGTH and all(redactor.text(part) == part for part in parts):
        return _storable_text(_cut(text, MAX_STACK_LENGTH))
    return clean(text, MAX_STACK_LENGTH, redactor)


def clean(text: str, longest: int, redactor: Redactor) -> str:
    """Redact before the last cut: half a secret is not recognised any more."""
    return _storable_text(_cut(redactor.text(_cut(text, MAX_TO_REDACT_LENGTH)), longest))


def _storable_text(redacted: str) -> str:
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


# Tracebacks. Work fails in the same places again and again: each path through the code is printed once.


class TracebackSummary(NamedTuple):
    """`printed` are the lines of the traceback; `where` is the innermost line of the application in it."""

    printed: str
    frames: tuple[TraceFrame, ...]
    where: str


_remembered: dict[tuple[_CodePath, bool, bool], TracebackSummary] = {}


def _summary_of(error: BaseException, *, is_cause: bool = False) -> TracebackSummary:
    """Summarize the traceback of an error; that of a cause is printed with the frames of Redrive."""
    path = _code_path(traceback_of(error))
    if path is None:
        return _summarize(error, is_cause)
    key = (path, is_cause, issubclass(type(error), RecursionError))  # of which fewer frames count
    summary = _remembered.get(key)
    if summary is None:
        summary = _summarize(error, is_cause)
        if len(summary.printed) <= MAX_REMEMBERED_LENGTH:
            if len(_remembered) >= MAX_REMEMBERED:
                _remembered.clear()
            _remembered[key] = summary
    return summary


def _exception_lines(error: BaseException) -> str:
    """The lines below the traceback: the type, the message and the notes."""
    return "".join(_formatted(error, limit=0).format_exception_only())


def _is_single(error: BaseException) -> bool:
    """Whether no cause, context or member has to be printed with it."""
    hidden = error.__context__ is None or error.__suppress_context__
    return error.__cause__ is None and hidden and not exception.members(error)


def _links(error: BaseException) -> list[BaseException]:
    """Return the error and its causes, or nothing if they are many, repeat, or include a group."""
    links: list[BaseException] = []
    link: BaseException | None = error
    while link is not None:
        if len(links) == MAX_LINKS or issubclass(type(link), BaseExceptionGroup):
            return []
        links.append(link)
        link = link.__context__ if link.__cause__ is None else link.__cause__
    return links


def _printed_links(links: list[BaseException], summary: TracebackSummary) -> list[str]:
    """Return the text of `_full_traceback` in parts; `summary` is that of the first link."""
    parts: list[str] = []
    formatted = _formatted(links[0], limit=0)
    for link in links:
        printed = summary.printed if link is links[0] else _summary_of(link, is_cause=True).printed
        parts += ["".join(formatted.format_exception_only()), printed]
        following = formatted.__cause__ or formatted.__context__
        if following is None:  # the context may be suppressed
            break
        parts.append(_CONTEXT if formatted.__cause__ is None else _CAUSE)
        formatted = following
    return parts[::-1]


def _full_traceback(error: BaseException) -> str:
    return "".join(_formatted(error, limit=-MAX_FRAMES).format())


def _formatted(error: BaseException, *, limit: int) -> traceback.TracebackException:
    trace = _from_the_task_on(traceback_of(error))
    return traceback.TracebackException(type(error), error, trace, limit=limit, compact=True)


def _summarize(error: BaseException, is_cause: bool) -> TracebackSummary:
    frames, trace = frames_of(error), traceback_of(error)
    printed = _printed(trace if is_cause else _from_the_task_on(trace))
    return TracebackSummary(printed, frames, _where(frames))


def _printed(trace: TracebackType | None) -> str:
    try:
        lines = traceback.extract_tb(trace, limit=-MAX_FRAMES).format()
    except Exception:  # noqa: BLE001 — it reads the source, by loaders that are anybody's code
        return ""
    return "".join(["Traceback (most recent call last):\n", *lines]) if lines else ""


def _where(frames: tuple[TraceFrame, ...]) -> str:
    for frame in frames:
        if frame.application:
            return f"{PurePath(frame.file).name}:{frame.line} in {frame.function}"
    return ""


def _code_path(trace: TracebackType | None) -> _CodePath | None:
    """Which instructions it came past; None when they are too many to be remembered.

    Equal code in another file is equal, so that the file counts too.
    """
    steps: list[tuple[str, str, CodeType, int]] = []
    while trace is not None:
        if len(steps) == MAX_FRAMES:
            return None
        code = trace.tb_frame.f_code
        steps.append((_module(trace), code.co_filename, code, trace.tb_lasti))
        trace = trace.tb_next
    return tuple(steps)


def _from_the_task_on(trace: TracebackType | None) -> TracebackType | None:
    """Without the frames in which Redrive calls the task."""
    own = trace
    while own is not None and _module(own).startswith("redrive."):
        own = own.tb_next
    return trace if own is None else own


def _module(trace: TracebackType) -> str:
    name = trace.tb_frame.f_globals.get("__name__")
    return name if type(name) is str else ""
