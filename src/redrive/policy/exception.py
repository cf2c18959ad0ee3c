"""Reading untrusted exceptions.

Exceptions come from any code: an attribute may be a property that raises, `__str__` may raise, a class may
misreport itself. No function here raises. They catch BaseException on purpose, because a hostile `__str__`
may even raise SystemExit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import cast

MAX_LINKS = 32
MAX_MEMBERS = 10_000
MAX_TEXT_LENGTH = 4000
MAX_NAME_LENGTH = 200
UNNAMED = "(unnamed)"


def attribute(thing: object, name: str) -> object:
    try:
        return getattr(thing, name, None)
    except BaseException:  # noqa: BLE001
        return None


def text(error: BaseException, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Return the message of an exception, truncated to `max_length` characters."""
    try:
        message = str.__str__(str(error))
    except BaseException:  # noqa: BLE001
        return "(the exception cannot be printed)"
    if len(message) <= max_length:
        return message
    return f"{message[:max_length]}… ({len(message) - max_length} more characters)"


def type_name(kind: type) -> str:
    """Return `package.module.ClassName`; without the module for built-in types."""
    module, name = _read(kind, "__module__"), _read(kind, "__qualname__") or UNNAMED
    return (name if module in ("builtins", "") else f"{module}.{name}")[:MAX_NAME_LENGTH]


def short_name(kind: type) -> str:
    return _read(kind, "__name__")[:MAX_NAME_LENGTH] or UNNAMED


def type_keys(kind: type) -> tuple[str, ...]:
    """Return `package:ClassName` for the class and each of its ancestors, nearest first.

    Names are compared, not classes, so that no library has to be imported; and only the top-level package,
    because libraries move their classes between modules.
    """
    return tuple(
        f"{_read(ancestor, '__module__').partition('.')[0]}:{short_name(ancestor)}"
        for ancestor in _ancestry(kind)[:-1]
    )


def has_own_attributes(kind: type) -> bool:
    """Return whether an instance can carry more than its message even if its `__dict__` is empty."""
    return any(
        type(name) is not str or not name.startswith("__") or name in _TELLING
        for ancestor in _ancestry(kind)
        if _read(ancestor, "__module__") != "builtins"
        for name in type.__dict__["__dict__"].__get__(ancestor)
    )


_TELLING = frozenset({"__getattr__", "__getattribute__", "__slots__", "__dict__"})


def _ancestry(kind: type) -> tuple[type, ...]:
    return cast("tuple[type, ...]", type.__dict__["__mro__"].__get__(kind))


def _read(kind: type, name: str) -> str:
    # Bypasses the metaclass, which may override any attribute of its classes.
    try:
        value = type.__dict__[name].__get__(kind)
    except BaseException:  # noqa: BLE001
        return ""
    return value if type(value) is str else ""


def number(value: object, low: int, high: int) -> int | None:
    """Return the value if it is a whole number between the bounds."""
    if not issubclass(type(value), int) or type(value) is bool:
        return None
    whole = int.__int__(cast("int", value))
    return whole if low <= whole <= high else None


def string(value: object) -> str | None:
    """Return the value as a plain string if it is one: a subclass may compare and hash differently."""
    return str.__str__(cast("str", value)) if issubclass(type(value), str) else None


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that this one was raised from: by `raise … from`, as `.reason` or first argument."""
    yield from _walk(error, _stated_causes)


def links(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, then the errors it was raised from or that were being handled when it was raised."""
    yield error
    yield from _walk(error, _all_causes)


def members(error: BaseException) -> tuple[BaseException, ...]:
    """Return the errors inside an exception group; none for any other error."""
    if not issubclass(type(error), BaseExceptionGroup):
        return ()
    inside = attribute(error, "exceptions")
    if type(inside) is not tuple:
        return ()
    return tuple(_errors_among(*inside))


def leaves(error: BaseException) -> list[BaseException]:
    """Return the errors inside a group and its nested groups, each once; none for any other error."""
    found: list[BaseException] = []
    waiting, seen = deque(members(error)), {id(error)}
    while waiting and len(seen) <= MAX_MEMBERS:
        member = waiting.popleft()
        if id(member) not in seen:
            seen.add(id(member))
            inside = members(member)
            waiting.extend(inside)
            if not inside:
                found.append(member)
    return found


def _walk(
    error: BaseException, next_of: Callable[[BaseException], list[BaseException]]
) -> Iterator[BaseException]:
    seen = {id(error)}
    waiting = [error]
    while waiting and len(seen) <= MAX_LINKS:
        for cause in next_of(waiting.pop(0)):
            if id(cause) not in seen:
                seen.add(id(cause))
                waiting.append(cause)
                yield cause


def _stated_causes(error: BaseException) -> list[BaseException]:
    arguments = attribute(error, "args")
    first = arguments[0] if type(arguments) is tuple and arguments else None
    return _errors_among(attribute(error, "__cause__"), attribute(error, "reason"), first)


def _all_causes(error: BaseException) -> list[BaseException]:
    if attribute(error, "__suppress_context__") is True:
        return _stated_causes(error)
    return _stated_causes(error) + _errors_among(attribute(error, "__context__"))


def _errors_among(*things: object) -> list[BaseException]:
    # By type(), because isinstance() asks the object itself for its __class__, which may raise.
    return [cast("BaseException", thing) for thing in things if issubclass(type(thing), BaseException)]
