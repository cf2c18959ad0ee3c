"""Exit codes, and errors on stderr. A traceback is shown only with --debug."""

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
from redrive.words.suggestion import closest


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
"""The first match applies; any other error exits with 1."""

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
"""For an API error, the code takes precedence over the status; any other error exits with 1."""


NO_SUCH_OPTION = {
    **dict.fromkeys(("-y", "--yes"), "This command does not ask for confirmation."),
    **dict.fromkeys(("-o", "--output", "--json"), "This command has only one output format."),
}
"""Why a command lacks an option that many commands have."""


class CommandExit(Exception):  # noqa: N818 - the command may have succeeded
    """Ends the command with this exit code, without another message."""

    def __init__(self, code: Exit) -> None:
        super().__init__(code.name)
        self.code = code


class DeclinedError(click.ClickException):
    """The operator declined the confirmation."""

    exit_code = Exit.DECLINED


def report_error(error: BaseException, *, debug: bool) -> Exit:
    """Print the error and return the exit code."""
    if isinstance(error, CommandExit):
        return error.code
    if debug and not isinstance(error, click.ClickException | click.Abort):
        notice(DEFAULT_REDACTOR.text("".join(format_exception(error))).rstrip())
    if isinstance(error, click.NoSuchOption):
        error = _improve_suggestion(error)
    if isinstance(error, click.ClickException):
        error.show()
        return Exit(error.exit_code)
    if isinstance(error, click.Abort):
        notice("Interrupted.")
        return Exit.INTERRUPTED
    for line in _lines(error, debug):
        notice(line)
    return exit_of(error)


def _improve_suggestion(error: click.NoSuchOption) -> click.NoSuchOption:
    """Explain options that only other commands have, and drop suggestions that merely share the dashes."""
    name, message, possibilities = error.option_name, error.message, None
    if name in NO_SUCH_OPTION:
        message = f"No such option {name!r}. {NO_SUCH_OPTION[name]}"
    else:
        known = {option.lstrip("-"): option for option in error.possibilities or ()}
        if (similar := closest(name.lstrip("-"), known)) is not None:
            possibilities = [known[similar]]
    return click.NoSuchOption(name, message=message, possibilities=possibilities, ctx=error.ctx)


def exit_of(error: BaseException) -> Exit:
    if isinstance(error, SchemaError):  # of a local database; the API reports it as unavailable
        return Exit.CONFLICT
    if isinstance(error, ApiError):
        return CODES.get(error.code) or STATUSES.get(error.status, Exit.ERROR)
    return next((code for code, kinds in EXITS.items() if isinstance(error, kinds)), Exit.ERROR)


def _lines(error: BaseException, debug: bool) -> Iterator[str]:
    if isinstance(error, RedriveError):
        yield f"Error: {one_line(error)}"
        if isinstance(error, ApiError) and error.status == Status.UNAUTHORIZED:
            yield "Hint: put a key of that server into REDRIVE_API_KEY, or where the context gets its key"
        elif isinstance(error, ApiError) and error.hint:
            yield f"Hint: {one_line(error.hint)}"
        if isinstance(error, StoreUnavailableError):
            yield "Hint: run `redrive config` to see which database is configured, and where"
        return
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{escape(error.filename)}: "
        yield f"Error: {place}{error.strerror}"
        return
    yield f"Error: unexpected error: {type(error).__name__}: {one_line(error)}"
    if not debug:
        yield "Hint: run the command again with --debug for a traceback"


def missing_extra(what: str, error: ModuleNotFoundError, extra: str = "server") -> Exception:
    """Return an error that says what to install, or the same error if a module of Redrive is missing."""
    if (error.name or "").startswith("redrive"):
        return error
    return RedriveError(f"{what} needs {error.name}, which is not installed: pip install 'redrive[{extra}]'")
