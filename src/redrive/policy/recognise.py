"""Recognising one exception: by its type, or by the code, status or number it carries.

What follows from the type alone is worked out once per type and kept. An error that carries nothing beyond
its message, which is most of them, is recognised without looking at it any further.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from redrive.errors import FinalError, RateLimitedError, UnavailableError, VerdictError
from redrive.model.failure import Category, Delivery, ErrorClass
from redrive.policy import known_errors as known
from redrive.policy import probe
from redrive.policy.known_errors import Meaning
from redrive.policy.retry_after import parse_retry_after


class Finding(NamedTuple):
    rule: str
    meaning: Meaning
    error: BaseException
    public_code: str | None = None
    unavailable: bool = False


class _Traits(NamedTuple):
    """What the type of an error tells."""

    name: str
    keys: tuple[str, ...]
    library: tuple[str, Meaning] | None
    general: tuple[str, Meaning] | None
    has_attributes: bool
    is_system_error: bool
    has_own_word: bool


def _read_traits(kind: type) -> _Traits:
    keys = probe.type_keys(kind)
    return _Traits(
        probe.type_name(kind),
        keys,
        _first(keys, known.LIBRARY_ERRORS),
        _first(keys, known.GENERAL_ERRORS),
        probe.has_own_attributes(kind),
        issubclass(kind, OSError),
        issubclass(kind, VerdictError | UnavailableError),
    )


_traits_of: Callable[[type], _Traits] = lru_cache(maxsize=2048)(_read_traits)


def _first(keys: tuple[str, ...], table: known.Table) -> tuple[str, Meaning] | None:
    return next(((key, table[key]) for key in keys if key in table), None)


def type_name(error: BaseException) -> str:
    return _traits_of(type(error)).name


def carries_something(error: BaseException) -> bool:
    """Has the error anything beyond its message that could be looked at?"""
    return _traits_of(type(error)).has_attributes or probe.attribute(error, "__dict__") != {}


def recognise(error: BaseException) -> Finding | None:
    traits = _traits_of(type(error))
    found = None
    if traits.has_own_word:
        found = _by_own_word(error)
    elif traits.library:
        found = Finding(*traits.library, error)
    elif carries_something(error):
        found = _by_what_it_carries(error, traits.keys)
    if found is None and traits.is_system_error:
        found = _by_system_number(error)
    if found is None and traits.general:
        found = Finding(*traits.general, error)
    return found


def _by_what_it_carries(error: BaseException, keys: tuple[str, ...]) -> Finding | None:
    return (
        _by_provider_code(error, keys)
        or _by_status(error)
        or _by_sqlstate(error)
        or _by_grpc_code(error, keys)
        or _by_sqlite_name(error)
    )


def _by_own_word(error: BaseException) -> Finding | None:
    kind = type(error)
    if issubclass(kind, UnavailableError):
        meaning = Meaning(Category.NETWORK, Delivery.NEVER_SEEN)
        return Finding(kind.__name__, meaning, error, unavailable=True)
    if issubclass(kind, RateLimitedError):
        return Finding(kind.__name__, Meaning(Category.RATE_LIMIT, Delivery.SEEN), error)
    return _said(error, ErrorClass.FINAL if issubclass(kind, FinalError) else ErrorClass.RETRYABLE)


def _said(error: BaseException, error_class: ErrorClass) -> Finding:
    """The code said whether to retry; the category is still that of the error it was made from, if known."""
    for cause in probe.causes(error):
        found = recognise(cause)
        if found:
            return Finding(type(error).__name__, found.meaning._replace(error_class=error_class), error)
    return Finding(type(error).__name__, Meaning(Category.UNKNOWN, error_class=error_class), error)


def _by_provider_code(error: BaseException, keys: tuple[str, ...]) -> Finding | None:
    if "botocore:ClientError" in keys:
        code = _item(_item(probe.attribute(error, "response"), "Error"), "Code")
        if isinstance(code, str) and code in known.AWS_CODES:
            return Finding(f"aws {code}", known.AWS_CODES[code], error)
    code = probe.attribute(error, "code")
    if isinstance(code, str) and code in known.SPENT_QUOTA_CODES:
        return Finding(f"code {code}", known.SPENT_QUOTA, error)
    return None


def _by_status(error: BaseException) -> Finding | None:
    status = status_of(error)
    if status is None or status < 400:
        return None
    other = known.OTHER_4XX if status < 500 else known.OTHER_5XX
    return Finding(f"status {status}", known.STATUSES.get(status, other), error)


def _by_sqlstate(error: BaseException) -> Finding | None:
    state = probe.attribute(error, "sqlstate") or probe.attribute(error, "pgcode")
    if not isinstance(state, str) or len(state) != 5:
        return None
    for length in (5, 3, 2):
        meaning = known.SQLSTATES.get(state[:length])
        if meaning:
            return Finding(f"sqlstate {state}", meaning, error)
    return None


def _by_grpc_code(error: BaseException, keys: tuple[str, ...]) -> Finding | None:
    code = probe.attribute(error, "code")
    if "grpc:RpcError" not in keys or not callable(code):
        return None
    try:
        name = probe.attribute(code(), "name")
    except BaseException:  # noqa: BLE001
        return None
    if isinstance(name, str) and name in known.GRPC_CODES:
        return Finding(f"grpc {name}", known.GRPC_CODES[name], error)
    return None


_OUT_OF = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EROFS})
_UNREACHABLE = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}
)


def _by_sqlite_name(error: BaseException) -> Finding | None:
    name = probe.attribute(error, "sqlite_errorname")
    if isinstance(name, str) and name.startswith(known.SQLITE_BUSY):
        return Finding(name, known.USED_UP, error)
    return None


def _by_system_number(error: BaseException) -> Finding | None:
    number = probe.number(probe.attribute(error, "errno"), 1, 10_000)
    if number in _OUT_OF:
        return Finding(f"errno {errno.errorcode[number]}", known.USED_UP, error)
    if number in _UNREACHABLE:
        return Finding(f"errno {errno.errorcode[number]}", known.UNREACHABLE, error)
    return None


def status_of(error: BaseException) -> int | None:
    """The HTTP status an error carries, wherever its library keeps it."""
    response = probe.attribute(error, "response")
    candidates = (
        probe.attribute(error, "status_code"),
        probe.attribute(error, "status"),
        probe.attribute(response, "status_code"),
        probe.attribute(response, "status"),
        _item(_item(response, "ResponseMetadata"), "HTTPStatusCode"),
        probe.attribute(error, "code") if "urllib:HTTPError" in _traits_of(type(error)).keys else None,
    )
    for candidate in candidates:
        status = probe.number(candidate, 100, 599)
        if status is not None:
            return status
    return None


def retry_after_of(error: BaseException, now: float | None) -> float | None:
    """The wait an error asks for: as an attribute, or in the headers of its response."""
    own = parse_retry_after(probe.attribute(error, "retry_after"), now=now)
    if own is not None:
        return own
    response = probe.attribute(error, "response")
    headers = (
        probe.attribute(response, "headers")
        or _item(_item(response, "ResponseMetadata"), "HTTPHeaders")
        or probe.attribute(error, "headers")
    )
    milliseconds = parse_retry_after(_header(headers, "retry-after-ms"), now=now)
    if milliseconds is not None:
        return milliseconds / 1000
    return parse_retry_after(_header(headers, "retry-after"), now=now)


def _header(headers: object, name: str) -> object:
    return _item(headers, name) or _item(headers, name.title())


def _item(mapping: object, key: str) -> object:
    getter = probe.attribute(mapping, "get")
    if mapping is None or not callable(getter):
        return None
    try:
        return getter(key)
    except BaseException:  # noqa: BLE001
        return None
