"""Generates the page of all exceptions, with their exit codes and HTTP problems."""

from __future__ import annotations

from collections.abc import Iterator

from docs.reference.generate.page import NOTE, cell, code, page, said, table

from redrive import errors
from redrive.cli.outcome import Exit, exit_of
from redrive.server.problem import TITLES, problem_of

WORDS = {
    Exit.OK: "success, even if there is nothing to show",
    Exit.ERROR: "any other error",
    Exit.USAGE: "an invalid argument, query or setting",
    Exit.NOT_FOUND: "not found",
    Exit.NOT_SIGNED_IN: "the server requires a key, or does not accept this one",
    Exit.FORBIDDEN: "the caller's role does not allow this",
    Exit.CONFLICT: "a conflict: it has changed, differs from the plan, or is in the wrong state",
    Exit.FAILURES: "the command was carried out, but some or all of the work failed",
    Exit.DECLINED: "the user declined the confirmation; nothing was done",
    Exit.TIMED_OUT: "timeout",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}


def error_page() -> str:
    rows = [(_name(kind), cell(said(kind)), *_outward(kind)) for kind in _tree(errors.RedriveError)]
    exits = [(str(int(each)), WORDS[each]) for each in Exit]
    statuses = [(str(status), title) for status, title in sorted(TITLES.items())]
    return page(
        "# Errors",
        NOTE,
        "All exceptions are in `redrive.errors`; indented exceptions are subclasses of the one above. "
        "A message says what happened, why, and what to do. *Exit* is the exit code of a command that fails "
        "with the exception. *Status* and *code* belong to the problem that the HTTP API returns for it; "
        "without them, the HTTP API does not return the exception.",
        table(("exception", "meaning", "exit", "status", "code"), rows),
        "## Exit codes",
        table(("code", "meaning"), exits),
        "## Problems of the HTTP API",
        "Every error response is a problem (RFC 9457) with the fields `type`, `title`, `status`, `code`, "
        "`detail`, `hint` and `request_id`. The status determines the title:",
        table(("status", "title"), statuses),
        "## Errors in your code",
        "Redrive assigns a category and a class to every exception before it decides what to do. See "
        "[known errors](known-errors.md) and [classifying errors](../guides/classifying.md).",
    )


def _tree(kind: type[Exception], depth: int = 0) -> Iterator[type[Exception]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__ and below.__mro__[1] is kind:
            yield from _tree(below, depth + 1)


def _name(kind: type[Exception]) -> str:
    depth = len([each for each in kind.__mro__ if issubclass(each, errors.RedriveError)]) - 1
    return "&emsp;" * min(depth, 3) + code(kind.__name__)


def _outward(kind: type[Exception]) -> tuple[str, str, str]:
    error = _example(kind)
    problem = problem_of(error)
    return (
        str(int(exit_of(error))),
        str(problem.status_code) if problem else "",
        code(problem.code) if problem else "",
    )


def _example(kind: type[Exception]) -> Exception:
    """Create an instance without a message: only its class matters."""
    error = kind.__new__(kind)
    error.__dict__ |= {"changes": (), "number": 0, "run_id": "", "max_size": 0, "candidates": ()}
    error.__dict__ |= {"seconds": 1.0, "word": "", "position": 1, "suggestion": None, "mismatch": None}
    error.__dict__ |= {"retry_after": 1.0}
    return error
