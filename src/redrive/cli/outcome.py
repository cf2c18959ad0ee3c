"""How a command ends: its exit code, and the error on stderr, with a traceback only with --debug."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from http import HTTPStatus as Status
from traceback import format_exception

import click

from redrive.cli.client import ApiError
from redrive.cli.terminal import escape, notice, one_line
from redrive.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    AttemptTimeoutError,
    ConflictError,
    DriftError,
    InProgressError,
    InvalidValueError,
    KeyReusedError,
    NotFoundError,
    QueueFullError,
    RedriveError,
    ReplayRefusedError,
    RunFailedError,
    SchemaError,
    SealedError,
    SignedOutError,
    StatementTimeoutError,
    StoreUnavailableError,
    TransitionError,
)
from redrive.policy.redact import DEFAULT_REDACTOR


class Exit(IntEnum):
    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    NOT_SIGNED_IN = 4
    FORBIDDEN = 5
    CONFLICT = 6
    FAILURES = 7
    DECLINED = 8
    TIMED_OUT = 9
    INTERRUPTED = 130


EXITS: dict[Exit, tuple[type[RedriveError], ...]] = {
    Exit.CONFLICT: (
        *(AlreadyExistsError, ConflictError, DriftError, InProgressError, KeyReusedError, QueueFullError),
        *(ReplayRefusedError, SealedError, TransitionError),
    ),
    Exit.USAGE: (InvalidValueError,),
    Exit.NOT_FOUND: (NotFoundError,),
    Exit.NOT_SIGNED_IN: (SignedOutError,),
    Exit.FORBIDDEN: (AccessDeniedError,),
    Exit.FAILURES: (RunFailedError,),
    Exit.TIMED_OUT: (AttemptTimeoutError, StatementTimeoutError),
}
"""The first that fits; any other error is 1."""

STATUSES = {
    400: Exit.USAGE,
    401: Exit.NOT_SIGNED_IN,
    403: Exit.FORBIDDEN,
    404: Exit.NOT_FOUND,
    408: Exit.TIMED_OUT,
    409: Exit.CONFLICT,
    412: Exit.CONFLICT,
    413: Exit.USAGE,
    414: Exit.USAGE,
    415: Exit.USAGE,
    422: Exit.USAGE,
    428: Exit.CONFLICT,
    504: Exit.TIMED_OUT,
}
CODES = {"key_reused": Exit.CONFLICT, "too_slow": Exit.TIMED_OUT}
"""For an answer of the API, the code comes before the status; any other answer is 1."""


class Ended(Exception):  # noqa: N818 - it may have gone well
    """End the command with this exit code, without another message."""

    def __init__(self, code: Exit) -> None:
        super().__init__(code.name)
        self.code = code


class DeclinedError(click.ClickException):
    """The operator was asked, and said no."""

    exit_code = Exit.DECLINED


def report_error(error: BaseException, *, debug: bool) -> Exit:
    """Say what went wrong, and return the exit code."""
    if isinstance(error, Ended):
        return error.code
    if debug and not isinstance(error, click.ClickException | click.Abort):
        notice(DEFAULT_REDACTOR.text("".join(format_exception(error))).rstrip())
    if isinstance(error, click.ClickException):
        error.show()
        return Exit(error.exit_code)
    if isinstance(error, click.Abort):
        notice("interrupted")
        return Exit.INTERRUPTED
    for line in _lines(error, debug):
        notice(line)
    return exit_of(error)


def exit_of(error: BaseException) -> Exit:
    if isinstance(error, SchemaError):  # of this machine's database; the API calls it unavailable
        return Exit.CONFLICT
    if isinstance(error, ApiError):
        return CODES.get(error.code) or STATUSES.get(error.status, Exit.ERROR)
    return next((code for code, kinds in EXITS.items() if isinstance(error, kinds)), Exit.ERROR)


def _lines(error: BaseException, debug: bool) -> Iterator[str]:
    if isinstance(error, RedriveError):
        yield f"Error: {one_line(error)}"
        if isinstance(error, ApiError) and error.status == Status.UNAUTHORIZED:
            yield "Hint: give a key of that server in REDRIVE_API_KEY, or where the context says that it is"
        elif isinstance(error, ApiError) and error.hint:
            yield f"Hint: {one_line(error.hint)}"
        if isinstance(error, StoreUnavailableError):
            yield "`redrive config` shows which database that is, and what says so."
        return
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{escape(error.filename)}: "
        yield f"Error: {place}{error.strerror}"
        return
    yield f"Error: unexpected error: {type(error).__name__}: {one_line(error)}"
    if not debug:
        yield "Run it again with --debug to see where."


def missing_extra(what: str, error: ModuleNotFoundError, extra: str = "server") -> Exception:
    """Return an error that says what to install, or the error itself if our own module is missing."""
    if (error.name or "").startswith("redrive"):
        return error
    return RedriveError(f"{what} needs {error.name}, which is not installed: pip install 'redrive[{extra}]'")
