"""What went wrong with PostgreSQL, in the words of the store. It repeats no password, no stored value."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from redrive.errors import StoreError, StoreUnavailableError

_PASSING = (
    "08",  # the connection
    "25006",  # read-only: a standby, or a primary that became one
    "25P03",  # idle for too long inside of a transaction
    "25P04",  # too long a transaction
    "28",  # refused at the door: wrong user or password
    "3D",  # no such database
    "40",  # deadlock, conflict of transactions
    "53",  # disk full, out of memory, too many connections
    "55P03",  # a lock was not to be had in time
    "57",  # cancelled, shutting down, starting up
    "58",  # the server's own disk
)
_BAD_VALUE = re.compile(r"([^:]*):.*\((.*)\)$", re.DOTALL)
_STALE = ("08", "25006", "57P")
_ADVICE = {
    "25006": "it is read-only at the moment; new connections are made",
    "28": "check the user and the password in its address",
    "3D": "create it, or correct its address",
    "53100": "its disk is full; free some space, work goes on by itself",
    "53300": "it has no connection left; use fewer, or allow more",
    "26000": "with a transaction pooler in between, say pooler=True",
    "42P05": "with a transaction pooler in between, say pooler=True",
    "3F": "are its tables migrated?",
    "42P01": "are its tables migrated?",
    "42501": "this user lacks a right",
}


def place_of(url: str) -> str:
    """The address without user, password and options."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "PostgreSQL"
    if parts.netloc.count("@") != url.count("@"):  # a password that is not encoded: it may be anywhere
        return "PostgreSQL"
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"


def failure_of(error: BaseException, place: str) -> StoreError | None:
    """The error of the store that stands for this one, if it comes from the driver or the network at all."""
    import asyncpg

    if type(error) is asyncpg.DataError:  # the driver's own; what the server says is one of its subclasses
        return StoreError(f"the database {place} cannot take a value: {_without_value(error)}")
    if isinstance(error, UnicodeError):
        return StoreError(f"the database {place} cannot take a text that is not Unicode")
    if isinstance(error, ValueError):
        return StoreError("the address of the PostgreSQL database is not understood, or an option in it")
    if isinstance(error, OSError | asyncpg.InterfaceError | asyncpg.InternalClientError):
        return StoreUnavailableError(f"cannot use the database {place}: {_words(error)}")
    if isinstance(error, asyncpg.InvalidCachedStatementError):
        return StoreUnavailableError(f"the tables of the database {place} were just changed; try again")
    return _refusal(error, place) if isinstance(error, asyncpg.PostgresError) else None


def is_indiscreet(error: BaseException) -> bool:
    """Whether it repeats a value of a row, or a part of the address: it is better not shown as the cause."""
    import asyncpg

    return isinstance(error, ValueError) or type(error) is asyncpg.DataError


def is_stale(error: BaseException) -> bool:
    """Whether no other connection is to be trusted either: the server went away, or became read-only."""
    import asyncpg

    state = _state(error)
    lost = (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    return state.startswith(_STALE) if state else isinstance(error, lost)


def is_out_of_time(error: BaseException | None) -> bool:
    """Whether the server has stopped a statement for its time limit, not because somebody wanted it."""
    return error is not None and _state(error) == "57014" and "user request" not in _words(error)


def is_race(error: BaseException | None) -> bool:
    """Whether somebody else has just made, or changed, the same role or right."""
    return error is not None and _state(error) in ("42710", "23505", "XX000")


def _refusal(error: BaseException, place: str) -> StoreError:
    state = _state(error)
    text = f"{_words(error)} ({state})"
    advice = next((f"; {words}" for start, words in _ADVICE.items() if state.startswith(start)), "")
    if state.startswith(_PASSING):
        return StoreUnavailableError(f"cannot use the database {place}: {text}{advice}")
    return StoreError(f"the database {place} refused: {text}{advice}")


def _state(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""


def _words(error: BaseException) -> str:
    """The message alone: the details that PostgreSQL adds hold values of the row."""
    if isinstance(error, OSError):
        return str(error) or "it did not answer in time"
    return str(error.args[0]) if error.args else type(error).__name__


def _without_value(error: BaseException) -> str:
    parts = _BAD_VALUE.match(_words(error))
    return f"{parts[1]} ({parts[2]})" if parts else type(error).__name__
