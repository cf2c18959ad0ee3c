"""Convert PostgreSQL errors to errors of the store. Messages contain no password and no stored value."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from redrive.errors import DuplicateRowError, StoreError, StoreUnavailableError

_PASSING = (
    "08",  # the connection
    "25006",  # read-only: a standby, or a primary that became one
    "25P03",  # idle for too long inside a transaction
    "25P04",  # too long a transaction
    "28",  # login refused: wrong user or password
    "3D",  # no such database
    "40",  # deadlock, conflict of transactions
    "53",  # disk full, out of memory, too many connections
    "55P03",  # timeout while waiting for a lock
    "57",  # cancelled, shutting down, starting up
    "58",  # the server's own disk
)
_BAD_VALUE = re.compile(r"([^:]*):.*\((.*)\)$", re.DOTALL)
_STALE = ("08", "25006", "57P")
_UNSUPPORTED_PARAMETER = "unsupported startup parameter"
"""PgBouncer reports many other errors with the same code."""
_POOLER = "behind a transaction pooler, set pooler=True"
_ADVICE = {
    "08003": "Redrive opens a new connection",
    "25006": "the server is read-only at the moment; Redrive opens new connections",
    "28": "check the user and the password in the database address",
    "3D": "create the database, or correct its address",
    "53100": "the disk is full; free some space, and work resumes automatically",
    "53300": "the server has no free connection; use fewer, or raise max_connections",
    "26000": _POOLER,
    "42P05": _POOLER,
    "3F": "if its tables are missing, run `redrive migrate`",
    "42P01": "if its tables are missing, run `redrive migrate`",
    "42501": "the database user lacks a privilege; ask an administrator to grant it",
}


def place_of(url: str) -> str:
    """Return the address without user, password and options."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "PostgreSQL"
    if parts.netloc.count("@") != url.count("@"):  # an unencoded password could be anywhere in it
        return "PostgreSQL"
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"


def failure_of(error: BaseException, place: str) -> StoreError | None:
    """Return the store's error for an error of the driver or the network; None for any other error."""
    import asyncpg

    if type(error) is asyncpg.DataError:  # the driver's own error: errors from the server are subclasses
        return StoreError(f"the database {place} cannot store a value: {_without_value(error)}")
    if isinstance(error, UnicodeError):
        return StoreError(f"the database {place} cannot store text that is not valid Unicode")
    if isinstance(error, ValueError):
        return StoreError("the address of the PostgreSQL database, or an option in it, is not valid")
    if isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        return StoreUnavailableError(f"cannot use the database {place}: {_words(error)}")
    if isinstance(error, asyncpg.InvalidCachedStatementError):
        return StoreUnavailableError(f"the tables of the database {place} have just changed; try again")
    return _refusal(error, place) if isinstance(error, asyncpg.PostgresError) else None


def contains_values(error: BaseException) -> bool:
    """Return whether a message may contain a stored value or part of the address, and must not be shown."""
    import asyncpg

    return isinstance(error, ValueError) or type(error) is asyncpg.DataError


def is_stale(error: BaseException) -> bool:
    """Return whether all other connections must be replaced too: the server went away or became read-only."""
    import asyncpg

    state = _state(error)
    lost = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    return state.startswith(_STALE) if state else isinstance(error, lost)


def is_silence(error: BaseException) -> bool:
    """Return whether a login got no answer from the server at all."""
    import asyncpg

    return isinstance(error, OSError | asyncpg.ConnectionDoesNotExistError)


def is_out_of_time(error: BaseException | None) -> bool:
    """Return whether the server cancelled a statement because of its timeout, not on a user's request."""
    return error is not None and _state(error) == "57014" and "user request" not in _words(error)


def is_race(error: BaseException | None) -> bool:
    """Return whether another process has just created or changed the same role or privilege."""
    return error is not None and _state(error) in ("42710", "23505", "XX000")


def _refusal(error: BaseException, place: str) -> StoreError:
    state = _state(error)
    text = f"{_words(error)} ({state})"
    if text.startswith(_UNSUPPORTED_PARAMETER):
        return StoreError(f"cannot use the database {place}: {text}; {_POOLER}")
    advice = next((f"; {words}" for start, words in _ADVICE.items() if state.startswith(start)), "")
    if state.startswith(_PASSING):
        return StoreUnavailableError(f"cannot use the database {place}: {text}{advice}")
    kind = DuplicateRowError if state == "23505" else StoreError
    return kind(f"the database {place} reported an error: {text}{advice}")


def _state(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""


def _words(error: BaseException) -> str:
    """Return the message without the details that PostgreSQL adds, which contain values of the row."""
    if isinstance(error, OSError):
        return str(error) or "it did not answer in time"
    return str(error.args[0]) if error.args else type(error).__name__


def _without_value(error: BaseException) -> str:
    parts = _BAD_VALUE.match(_words(error))
    return f"{parts[1]} ({parts[2]})" if parts else type(error).__name__
