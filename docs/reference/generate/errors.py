"""The page of all exceptions, with what the command line and the HTTP API make of them."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

from docs.reference.generate.page import NOTE, cell, code, page, said, table

from redrive import errors
from redrive.cli.outcome import Exit, exit_of
from redrive.server.problem import TITLES, problem_of

WORDS = {
    Exit.OK: "it went well, also when there is nothing to see",
    Exit.ERROR: "any other error",
    Exit.USAGE: "a wrong argument, query or setting",
    Exit.NOT_FOUND: "there is no such thing",
    Exit.NOT_SIGNED_IN: "the server wants a key, or does not know this one",
    Exit.FORBIDDEN: "the role of whoever asks is not enough",
    Exit.CONFLICT: "it is not as expected: changed since, planned otherwise, in another state",
    Exit.FAILURES: "it was done, and some or all of it has failed",
    Exit.DECLINED: "somebody was asked, and has said no; nothing was done",
    Exit.TIMED_OUT: "it has taken longer than it may",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}


def error_page() -> str:
    rows = [(_name(kind), cell(said(kind)), *_outward(kind)) for kind in _tree(errors.RedriveError)]
    exits = [(str(int(each)), WORDS[each]) for each in Exit]
    statuses = [(str(status), title) for status, title in sorted(TITLES.items())]
    return page(
        "# Errors",
        NOTE,
        "All exceptions are in `redrive.errors`; those below another one are also that one. "
        "Messages say what, why and what to do. *Exit* is the exit code of a command that ends with it, "
        "*status* and *code* are of the problem that the HTTP API answers; where there are none, it does not "
        "leave the process so.",
        table(("exception", "meaning", "exit", "status", "code"), rows),
        "## Exit codes",
        table(("code", "meaning"), exits),
        "## Problems of the HTTP API",
        "Every answer that is not what was asked for is a problem (RFC 9457): `type`, `title`, `status`, "
        "`code`, `detail`, `hint`, `request_id`. The title follows from the status:",
        table(("status", "title"), statuses),
        "## What an error of your code means",
        "Every exception gets a category and a class before anything is decided: see "
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
    """One without a message: only its kind is asked about."""
    error = kind.__new__(kind)
    error.__dict__.update(
        vars(SimpleNamespace(changes=(), number=0, run_id="", max_size=0, retry_after=1.0, seconds=1.0))
    )
    return error
