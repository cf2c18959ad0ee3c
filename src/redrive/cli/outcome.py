"""How a command ends: its exit code, and what it says on stderr. Nobody gets to see a traceback unasked."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from traceback import format_exception

import click

from redrive.cli.text import notice, one_line
from redrive.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    AttemptTimeoutError,
    ConflictError,
    DriftError,
    InvalidValueError,
    NotFoundError,
    QueueFullError,
    RedriveError,
    ReplayRefusedError,
    RunFailedError,
    StatementTimeoutError,
    StoreUnavailableError,
    TransitionError,
)


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


EXITS: tuple[tuple[type[RedriveError], Exit], ...] = (
    (InvalidValueError, Exit.USAGE),
    (NotFoundError, Exit.NOT_FOUND),
    (AccessDeniedError, Exit.FORBIDDEN),
    (AlreadyExistsError, Exit.CONFLICT),
    (ConflictError, Exit.CONFLICT),
    (DriftError, Exit.CONFLICT),
    (ReplayRefusedError, Exit.CONFLICT),
    (QueueFullError, Exit.CONFLICT),
    (TransitionError, Exit.CONFLICT),
    (RunFailedError, Exit.FAILURES),
    (AttemptTimeoutError, Exit.TIMED_OUT),
    (StatementTimeoutError, Exit.TIMED_OUT),
)
"""All others are 1."""


class DeclinedError(click.ClickException):
    """Somebody was asked, and has said no."""

    exit_code = Exit.DECLINED


def told(error: BaseException, *, debug: bool) -> Exit:
    """Say what went wrong, and how the command ends."""
    if debug and not isinstance(error, click.ClickException | click.Abort):
        click.echo("".join(format_exception(error)), err=True, nl=False)
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
    return next((code for kind, code in EXITS if isinstance(error, kind)), Exit.ERROR)


def _lines(error: BaseException, debug: bool) -> Iterator[str]:
    if isinstance(error, RedriveError):
        yield f"Error: {one_line(error)}"
        if isinstance(error, StoreUnavailableError):
            yield "`redrive config` shows which database that is, and what says so."
        return
    yield f"Error: unexpected error: {type(error).__name__}: {one_line(error)}"
    if not debug:
        yield "Run it again with --debug to see where."
