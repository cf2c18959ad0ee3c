"""Recognising one exception by its type, or by the code, status or number that it carries.

The traits of a type are computed once and cached. Most errors carry only a message, and are recognized by
their type alone.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, cast

from redrive.errors import DeferredError, FinalError, RateLimitedError, UnavailableError, VerdictError
from redrive.model.failure import Category, Delivery, ErrorClass
from redrive.policy import exception
from redrive.policy import known_errors as known
from redrive.policy.error_text import ReportedError, category_in
from redrive.policy.known_errors import ErrorMeaning
from redrive.policy.retry_after import parse_milliseconds, parse_retry_after

MAX_NESTED = 16
"""The maximum depth of nested errors, which may form a cycle."""


class Recognition(NamedTuple):
    rule: str
    meaning: ErrorMeaning
    error: BaseException
    public_code: str | None = None
    unavailable: bool = False


_Recogniser = Callable[[BaseException, int], Recognition | None]


class _Traits(NamedTuple):
    """The traits of an error type."""

    name: str
    keys: tuple[str, ...]
    special: _Recogniser | None
    library: tuple[str, ErrorMeaning] | None
    general: tuple[str, ErrorMeaning] | None
    has_attributes: bool
    is_system_error: bool


def _read_traits(kind: type) -> _Traits:
    keys = exception.type_keys(kind)
    return _Traits(
        exception.type_name(kind),
        keys,
        _special(kind, keys[0]),
        _first(keys, known.LIBRARY_ERRORS),
        _first(keys, known.GENERAL_ERRORS),
        exception.has_own_attributes(kind),
        issubclass(kind, OSError),
    )


_kept_traits: Callable[[type], _Traits] = lru_cache(maxsize=2048)(_read_traits)


def _traits_of(kind: type) -> _Traits:
    # Only plain classes are cached: a metaclass could make its class equal to any other.
    return _kept_traits(kind) if type(kind) is type else _read_traits(kind)


def _special(kind: type, key: str) -> _Recogniser | None:
    if kind is ReportedError:
        return _by_words
    if issubclass(kind, VerdictError | UnavailableError):
        return _by_own_word
    if issubclass(kind, DeferredError):
        return _by_deferral
    if key in known.WRAPPERS:
        return _by_what_is_inside
    if key in known.PHRASES:
        return _by_phrase
    return _by_status if key in known.STATUS_FIRST else None


def _first(keys: tuple[str, ...], table: known.Table) -> tuple[str, ErrorMeaning] | None:
    return next(((key, table[key]) for key in keys if key in table), None)


def type_name(error: BaseException) -> str:
    return _traits_of(type(error)).name


def has_details(error: BaseException) -> bool:
    """Return whether the error carries anything beyond its message."""
    if _traits_of(type(error)).has_attributes:
        return True
    own = exception.attribute(error, "__dict__")
    return type(own) is not dict or len(own) > 0


def recognise(error: BaseException, depth: int = 0) -> Recognition | None:
    """Recognise one error; `depth` is the number of errors around it."""
    traits = _traits_of(type(error))
    found = traits.special(error, depth) if traits.special else None
    if found is None and traits.library:
        found = Recognition(*traits.library, error)
    elif found is None and has_details(error):
        found = _by_what_it_carries(error, traits.keys)
    if found is None and traits.is_system_error:
        found = _by_system_number(error)
    if found is None and traits.general:
        found = Recognition(*traits.general, error)
    return found


def _by_what_it_carries(error: BaseException, keys: tuple[str, ...]) -> Recognition | None:
    return (
        _by_provider_code(error, keys)
        or _by_status(error)
        or _by_model_error(error, keys)
        or _by_sqlstate(error)
        or _by_grpc_code(error, keys)
        or _by_sqlite_name(error)
        or _by_smtp_code(error)
    )


def _by_words(error: BaseException, depth: int) -> Recognition | None:
    """Recognise an error that is only a text: by the HTTP status that it names, else by its words."""
    found = _by_status(error)
    if found is not None:
        return found
    category = category_in(exception.text(error))
    return None if category is None else Recognition(f"text: {category}", ErrorMeaning(category), error)


def _by_own_word(error: BaseException, depth: int) -> Recognition | None:
    kind = type(error)
    if issubclass(kind, UnavailableError):
        meaning = ErrorMeaning(Category.NETWORK, Delivery.NEVER_SEEN)
        return Recognition(exception.short_name(kind), meaning, error, unavailable=True)
    if issubclass(kind, RateLimitedError):
        return Recognition(
            exception.short_name(kind), ErrorMeaning(Category.RATE_LIMIT, Delivery.SEEN), error
        )
    return _by_stated_class(
        error, ErrorClass.FINAL if issubclass(kind, FinalError) else ErrorClass.RETRYABLE, depth
    )


def _by_stated_class(error: BaseException, error_class: ErrorClass, depth: int) -> Recognition:
    """Use the class that the application's code stated, and the category of the error's cause, if known."""
    rule = exception.short_name(type(error))
    inside = _by_what_is_inside(error, depth)
    if inside is None:
        return Recognition(rule, ErrorMeaning(Category.UNKNOWN, error_class=error_class), error)
    # Take status and hint from the inner error, unless the stated class has its own hint.
    telling = error if exception.attribute(error, "retry_after") is not None else inside.error
    return Recognition(rule, inside.meaning._replace(error_class=error_class), telling)


def _by_deferral(error: BaseException, depth: int) -> Recognition:
    """Use the category of the error behind the deferral, and the deferral's own wait in `retry_after`."""
    inside = _by_what_is_inside(error, depth)
    meaning = inside.meaning if inside else ErrorMeaning(Category.RATE_LIMIT)
    return Recognition(exception.short_name(type(error)), meaning, error)


def _by_what_is_inside(error: BaseException, depth: int) -> Recognition | None:
    if depth >= MAX_NESTED:
        return None
    findings = (recognise(cause, depth + 1) for cause in exception.causes(error))
    return next((found for found in findings if found), None)


def _by_phrase(error: BaseException, _depth: int) -> Recognition | None:
    key = _traits_of(type(error)).keys[0]
    text = exception.text(error)
    for phrase, meaning in known.PHRASES[key]:
        if phrase in text:
            return Recognition(f"{key} ({phrase.strip()})", meaning, error)
    return None


def _by_provider_code(error: BaseException, keys: tuple[str, ...]) -> Recognition | None:
    if "botocore:ClientError" in keys:
        code = _entry(_entry(exception.attribute(error, "response"), "Error"), "Code")
        return _by_name(error, "aws", code, known.AWS_CODES)
    return _by_name(error, "code", exception.attribute(error, "code"), known.SPENT_QUOTA_CODES)


def _by_model_error(error: BaseException, keys: tuple[str, ...]) -> Recognition | None:
    if "openai:APIError" not in keys and "anthropic:APIError" not in keys:
        return None
    inner = _entry(_entry(exception.attribute(error, "body"), "error"), "type")
    names = (exception.attribute(error, "code"), exception.attribute(error, "type"), inner)
    findings = (_by_name(error, "model", name, known.MODEL_ERRORS) for name in names)
    return next((found for found in findings if found), None)


def _by_name(error: BaseException, what: str, name: object, table: known.Table) -> Recognition | None:
    plain = exception.string(name)
    if plain is None or plain not in table:
        return None
    return Recognition(f"{what} {plain}", table[plain], error)


def _by_status(error: BaseException, _depth: int = 0) -> Recognition | None:
    status = status_of(error)
    if status is None or status < 400:
        return None
    other = known.OTHER_4XX if status < 500 else known.OTHER_5XX
    return Recognition(f"status {status}", known.STATUSES.get(status, other), error)


def _by_sqlstate(error: BaseException) -> Recognition | None:
    state = exception.string(exception.attribute(error, "sqlstate")) or exception.string(
        exception.attribute(error, "pgcode")
    )
    if state is None or len(state) != 5:
        return None
    return _by_longest(error, f"sqlstate {state}", (state, state[:3], state[:2]), known.SQLSTATES)


def _by_longest(
    error: BaseException, rule: str, names: tuple[str, ...], table: known.Table
) -> Recognition | None:
    return next((Recognition(rule, table[name], error) for name in names if name in table), None)


def _by_grpc_code(error: BaseException, keys: tuple[str, ...]) -> Recognition | None:
    code = exception.attribute(error, "code")
    if "grpc:RpcError" not in keys or not callable(code):
        return None
    try:
        return _by_name(error, "grpc", exception.attribute(code(), "name"), known.GRPC_CODES)
    except BaseException:  # noqa: BLE001
        return None


_OUT_OF = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EROFS}
    | {errno.EIO}
)
_UNREACHABLE = frozenset(
    {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}
)


def _by_sqlite_name(error: BaseException) -> Recognition | None:
    name = exception.string(exception.attribute(error, "sqlite_errorname"))
    if name is None:
        return None
    return _by_longest(error, name, (name, "_".join(name.split("_")[:2])), known.SQLITE_NAMES)


def _by_smtp_code(error: BaseException) -> Recognition | None:
    codes = [exception.attribute(error, "smtp_code")]
    refused = exception.attribute(error, "recipients")
    if type(refused) is dict:
        codes += [answer[0] for answer in refused.values() if type(answer) is tuple and answer]
    worst = max(exception.number(code, 400, 599) or 0 for code in codes)
    name = str(worst)
    return _by_longest(error, f"smtp {name}", (name, name[0]), known.SMTP_CODES)


def _by_system_number(error: BaseException) -> Recognition | None:
    number = exception.number(exception.attribute(error, "errno"), 1, 10_000)
    if number in _OUT_OF:
        return Recognition(f"errno {errno.errorcode[number]}", known.USED_UP, error)
    if number in _UNREACHABLE:
        return Recognition(f"errno {errno.errorcode[number]}", known.UNREACHABLE, error)
    return None


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error from the attribute where its library stores it."""
    response = exception.attribute(error, "response")
    candidates = (
        exception.attribute(error, "status_code"),
        exception.attribute(error, "status"),
        exception.attribute(response, "status_code"),
        exception.attribute(response, "status"),
        _entry(_entry(response, "ResponseMetadata"), "HTTPStatusCode"),
        exception.attribute(error, "code") if "urllib:HTTPError" in _traits_of(type(error)).keys else None,
    )
    for candidate in candidates:
        status = exception.number(candidate, 100, 599)
        if status is not None:
            return status
    return None


def retry_after_of(error: BaseException, now: float | None) -> float | None:
    """Return the wait that an error asks for: in an attribute, or in the headers of its response."""
    own = parse_retry_after(exception.attribute(error, "retry_after"), now=now)
    if own is not None:
        return own
    response = exception.attribute(error, "response")
    candidates = (
        exception.attribute(response, "headers"),
        _entry(_entry(response, "ResponseMetadata"), "HTTPHeaders"),
        exception.attribute(error, "headers"),
    )
    for headers in candidates:
        wait = parse_milliseconds(_header(headers, "retry-after-ms"))
        if wait is None:
            wait = parse_retry_after(_header(headers, "retry-after"), now=now)
        if wait is not None:
            return wait
    return None


def _header(headers: object, name: str) -> object:
    value = _item(headers, name)
    return _item(headers, name.title()) if value is None else value


def _item(mapping: object, key: str) -> object:
    """Read a header; every library has its own class for headers."""
    getter = exception.attribute(mapping, "get")
    if mapping is None or not callable(getter):
        return None
    try:
        return getter(key)
    except BaseException:  # noqa: BLE001
        return None


def _entry(mapping: object, key: str) -> object:
    return dict.get(cast("dict[str, object]", mapping), key) if issubclass(type(mapping), dict) else None
