"""Evidence: the stored part of an exception, redacted and limited in size. Collecting it never fails."""

from __future__ import annotations

import traceback
from pathlib import PurePath
from types import CodeType, TracebackType
from typing import NamedTuple

from redrive.engine.payload_mismatch import redacted
from redrive.errors import PayloadError
from redrive.model.fact import Fact
from redrive.model.failure import Category, ErrorClass, Failure
from redrive.policy import exception
from redrive.policy.classify import DEFAULT_CLASSIFIER, Classifier
from redrive.policy.codec import storable
from redrive.policy.fingerprint import Fingerprint, TraceFrame, fingerprint, frames_of, traceback_of
from redrive.policy.public_code import CATEGORY_CODES
from redrive.policy.redact import Redactor
from redrive.policy.redact.marker import without_hashes
from redrive.policy.stack import omission
from redrive.words.failure import headline, short

MAX_MESSAGE_LENGTH, MAX_TITLE_LENGTH = 4_000, 400
MAX_STACK_LENGTH, MAX_EXCEPTION_LENGTH = 32_000, 8_000
MAX_TO_REDACT_LENGTH = 200_000
MAX_FRAMES = 60
MAX_LINKS = 8
MAX_REMEMBERED, MAX_REMEMBERED_LENGTH = 256, 20_000

_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"
_CodePath = tuple[tuple[str, str, CodeType, int], ...]


class Evidence(NamedTuple):
    """`where` is the innermost application line in the traceback."""

    failure: Failure
    stack: str
    fingerprint: Fingerprint
    where: str = ""

    @property
    def title(self) -> str:
        """The redacted message on one line, which names the failure and, if it is the newest, its group."""
        failure = self.failure
        return short(
            headline(failure.message, failure.error_type, self.fingerprint.pattern), MAX_TITLE_LENGTH
        )


def evidence_of(
    error: BaseException, *, classifier: Classifier | None, redactor: Redactor, step: str, now: float
) -> Evidence:
    remote = error.__dict__.get("evidence")
    if isinstance(remote, Evidence):  # collected in the child process that raised the error
        stack = clean(remote.stack, MAX_STACK_LENGTH, redactor)
        return _redacted(remote.failure, stack, remote.fingerprint, remote.where, redactor)
    failure = (classifier or DEFAULT_CLASSIFIER).classify(error, now=now)
    if len(failure.message) > exception.MAX_TEXT_LENGTH:  # truncated: half a secret is no longer recognized
        failure = failure._replace(message=exception.text(error, MAX_TO_REDACT_LENGTH))
    # Redacted before anything is derived from it: a part of a secret is no longer recognized as one.
    message = redactor.text(_cut(failure.message, MAX_TO_REDACT_LENGTH))
    summary = _summary_of(error)
    mark = fingerprint(
        error_type=failure.error_type,
        frames=summary.frames,
        step=step,
        status=failure.http_status,
        message=without_hashes(message),
    )
    failure = failure._replace(message=_storable_text(_cut(message, MAX_MESSAGE_LENGTH)))
    if issubclass(type(error), PayloadError) and not summary.where:  # the task was not called
        mismatch = error.__dict__.get("mismatch")
        failure = failure._replace(mismatch=mismatch and redacted(mismatch, redactor))
        summary = summary._replace(printed="")
    return Evidence(failure, _stack(error, summary, redactor), _redacted_mark(mark, redactor), summary.where)


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
    """Create evidence of a failure without an exception: a lost lease, an open breaker, an unknown task."""
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
    return Evidence(failure, "", fingerprint(error_type=rule, step=step, message=without_hashes(message)))


def evidence_of_loss(worker: str, *, step: str) -> Evidence:
    return evidence_without_error(
        Category.CANCELLED,
        ErrorClass.RETRYABLE,
        "lease_lost",
        f"the worker {worker} stopped renewing its lease: it crashed, or lost its connection to the database",
        step=step,
    )


def _redacted(failure: Failure, stack: str, mark: Fingerprint, where: str, redactor: Redactor) -> Evidence:
    message = clean(failure.message, MAX_MESSAGE_LENGTH, redactor)
    return Evidence(failure._replace(message=message), stack, _redacted_mark(mark, redactor), where)


def _redacted_mark(mark: Fingerprint, redactor: Redactor) -> Fingerprint:
    """Redact what comes from names: of exceptions, functions and steps."""
    reason = Fact(
        mark.reason.code, {name: _redacted_part(part, redactor) for name, part in mark.reason.fields.items()}
    )
    return Fingerprint(mark.value, reason, redactor.text(mark.pattern))


def _redacted_part(part: str | list[str], redactor: Redactor) -> str | list[str]:
    return redactor.text(part) if isinstance(part, str) else [redactor.text(name) for name in part]


def _stack(error: BaseException, summary: TracebackSummary, redactor: Redactor) -> str:
    try:
        if not _is_single(error):
            return _chain(error, summary, redactor)
        # Redacted separately: the same traceback occurs many times, with different messages.
        printed = clean(summary.printed, MAX_STACK_LENGTH - MAX_EXCEPTION_LENGTH, redactor)
        return printed + clean(_exception_lines(error), MAX_STACK_LENGTH - len(printed), redactor)
    except BaseException:  # noqa: BLE001 — exceptions are user code
        return "<the traceback could not be printed>"


def _chain(error: BaseException, summary: TracebackSummary, redactor: Redactor) -> str:
    """Print the error with its causes, in parts, most of which occur many times, as in `_stack`."""
    links = _links(error)
    if not links:
        return clean(_full_traceback(error), MAX_STACK_LENGTH, redactor)
    parts = _print_links(links, summary)
    text = "".join(parts)
    if len(text) <= MAX_TO_REDACT_LENGTH and all(redactor.text(part) == part for part in parts):
        return _storable_text(_cut(text, MAX_STACK_LENGTH))
    return clean(text, MAX_STACK_LENGTH, redactor)


def clean(text: str, max_length: int, redactor: Redactor) -> str:
    """Redact before the last truncation: half a secret is no longer recognized."""
    return _storable_text(_cut(redactor.text(_cut(text, MAX_TO_REDACT_LENGTH)), max_length))


def _storable_text(redacted: str) -> str:
    if redacted.isascii() and "\x00" not in redacted:
        return redacted
    return str(storable(redacted)).replace("\x00", "␀").encode(errors="replace").decode()


def _cut(text: str, max_length: int) -> str:
    """Shorten a long text to its head and tail, cut at line ends."""
    if len(text) <= max_length:
        return text
    head, tail = text[: max_length // 2], text[-max_length // 2 :]
    head = head.rpartition("\n")[0] or head
    tail = tail.partition("\n")[2] or tail
    return f"{head}\n{omission(len(text) - len(head) - len(tail))}\n{tail}"


# Tracebacks. Work often fails in the same places, so each path through the code is printed only once.


class TracebackSummary(NamedTuple):
    """`printed` holds the lines of the traceback; `where` is the innermost application line in it."""

    printed: str
    frames: tuple[TraceFrame, ...]
    where: str


_remembered: dict[tuple[_CodePath, bool, bool], TracebackSummary] = {}


def _summary_of(error: BaseException, *, is_cause: bool = False) -> TracebackSummary:
    """Summarize the traceback of an error. The traceback of a cause includes the frames of Redrive."""
    path = _code_path(traceback_of(error))
    if path is None:
        return _summarize(error, is_cause)
    key = (path, is_cause, issubclass(type(error), RecursionError))  # fewer of its frames count
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
    return "".join(_format(error, limit=0).format_exception_only())


def _is_single(error: BaseException) -> bool:
    """Whether the error has no cause, context or group members to print."""
    hidden = error.__context__ is None or error.__suppress_context__
    return error.__cause__ is None and hidden and not exception.members(error)


def _links(error: BaseException) -> list[BaseException]:
    """Return the error and its causes; nothing if they are too many, form a cycle, or include a group."""
    links: list[BaseException] = []
    link: BaseException | None = error
    while link is not None:
        if len(links) == MAX_LINKS or issubclass(type(link), BaseExceptionGroup):
            return []
        links.append(link)
        link = link.__context__ if link.__cause__ is None else link.__cause__
    return links


def _print_links(links: list[BaseException], summary: TracebackSummary) -> list[str]:
    """Return the text of `_full_traceback` in parts. `summary` belongs to the first link."""
    parts: list[str] = []
    formatted = _format(links[0], limit=0)
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
    return "".join(_format(error, limit=-MAX_FRAMES).format())


def _format(error: BaseException, *, limit: int) -> traceback.TracebackException:
    trace = _from_the_task_on(traceback_of(error))
    return traceback.TracebackException(type(error), error, trace, limit=limit, compact=True)


def _summarize(error: BaseException, is_cause: bool) -> TracebackSummary:
    frames, trace = frames_of(error), traceback_of(error)
    printed = _print_frames(trace if is_cause else _from_the_task_on(trace))
    return TracebackSummary(printed, frames, _where(frames))


def _print_frames(trace: TracebackType | None) -> str:
    try:
        lines = traceback.extract_tb(trace, limit=-MAX_FRAMES).format()
    except Exception:  # noqa: BLE001 — it reads the source with loaders, which are user code
        return ""
    return "".join(["Traceback (most recent call last):\n", *lines]) if lines else ""


def _where(frames: tuple[TraceFrame, ...]) -> str:
    for frame in frames:
        if frame.application:
            return f"{PurePath(frame.file).name}:{frame.line} in {frame.function}"
    return ""


def _code_path(trace: TracebackType | None) -> _CodePath | None:
    """Return the instructions in the traceback; None if there are too many to cache.

    Code objects of identical code in two files are equal, so the file name is included.
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
    """Skip the frames in which Redrive calls the task."""
    own = trace
    while own is not None and _module(own).startswith("redrive."):
        own = own.tb_next
    return trace if own is None else own


def _module(trace: TracebackType) -> str:
    name = trace.tb_frame.f_globals.get("__name__")
    return name if type(name) is str else ""
