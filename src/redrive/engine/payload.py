"""Between Python's types and JSON: what a user hands in, and what a task function is given.

`to_json` writes what `from_json` reads back when it is told the type: dataclasses, TypedDicts, msgspec
structs, attrs and pydantic classes, in them or alone dates, UUIDs, decimals, enums, sets, bytes as base64.
A `reader` does the same with stored text, in one pass.
Plain JSON passes as it is. The codec has the last word on everything: what has no JSON form is left in its
place, and the codec refuses it, saying where it is and what to do.

pydantic is recognised by its methods and never imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial
from inspect import Parameter
from json import dumps
from types import UnionType
from typing import Annotated, Any, ForwardRef, Literal, NoReturn, TypeAlias, Union, get_args, get_origin

from msgspec import UNSET, Struct, ValidationError, convert, defstruct, to_builtins
from msgspec.json import Decoder

from redrive.errors import InvalidValueError, NotStorableError, PayloadError
from redrive.policy import exception
from redrive.policy.codec import DEFAULT_LIMITS, JsonLimits, JsonValue, decode_stored, encode, plain_text
from redrive.policy.codec.limits import FLATTEN, KEEP_ELSEWHERE, Path, refuse, type_name
from redrive.policy.codec.text import UNREADABLE, has_escapes

Read: TypeAlias = Callable[[str], Any]
Convert: TypeAlias = Callable[[JsonValue], Any]

_LEAVES = frozenset({str, bool, type(None)})
_JSON_TYPES: frozenset[type] = frozenset({dict, list, str, int, float, bool, type(None)})
_UNTYPED = (None, Any, object, Parameter.empty)
_MAX_SHOWN = 5


def to_json(value: object, *, limits: JsonLimits = DEFAULT_LIMITS) -> JsonValue:
    """The value as JSON that the codec accepts, or NotStorableError."""
    return json_and_text(value, limits=limits)[0]


def json_and_text(value: object, *, limits: JsonLimits = DEFAULT_LIMITS) -> tuple[JsonValue, str]:
    """The value as JSON, and its text."""
    if value is None:
        return None, "null"
    text = plain_text(value, limits=limits)
    if text is not None:
        return value, text  # type: ignore[return-value]
    plain: JsonValue = _Writing(limits).value(value, (), typed=False)
    return plain, encode(plain, limits=limits)


def from_json(value: JsonValue, annotation: object, *, name: str = "payload") -> Any:
    """The value in the annotated type, or PayloadError. `name` says in the message what it was."""
    return converter(annotation, name=name)(value)


def converter(annotation: object, *, name: str = "payload") -> Convert:
    """Return a function that converts JSON values to that type; those that fit as they are stay unchanged."""
    if is_untyped(annotation):
        return lambda value: value
    _require_readable(annotation, name)
    types, convert_to_type = plain_types(annotation), _conversion(annotation)

    def converted(value: JsonValue) -> Any:
        if type(value) in types:
            return value
        try:
            return convert_to_type(value)
        except (ValidationError, _Misfit, UnicodeEncodeError) as error:  # the last one: a lone surrogate
            raise PayloadError(f"{name}: {error}") from None
        except RecursionError:
            raise PayloadError(f"{name}: nested too deep to be read") from None

    return converted


def _conversion(annotation: Any) -> Convert:
    if isinstance(annotation, type) and _is_model(annotation):
        return partial(_read_model, annotation)  # without msgspec, four times as fast
    # msgspec looks at a type anew each time, unless it is that of a field.
    holder = defstruct("Holder", [("value", annotation)], array_like=True)
    to_holder = partial(convert, type=holder, dec_hook=_read_model, str_keys=True)
    to_type = partial(convert, type=annotation, dec_hook=_read_model, str_keys=True)

    def converted(value: JsonValue) -> Any:
        try:
            return to_holder([value]).value
        except ValidationError:
            return to_type(value)  # its message has the path within the value

    return converted


def reader(annotation: object, *, name: str = "payload") -> Read:
    """Return a function that reads stored text in that type. Every value that it returns is a new one."""
    convert_value = converter(annotation, name=name)
    if is_untyped(annotation):
        return decode_stored
    if isinstance(annotation, type) and _is_model(annotation):
        return lambda text: convert_value(decode_stored(text))
    return read_at_once(typed_decoder(annotation), convert_value)


def typed_decoder(annotation: Any) -> Read:
    """Return a function that decodes text without escapes straight into the type, or raises UNREADABLE."""
    return Decoder(annotation, dec_hook=_read_model).decode


def read_at_once(decode_typed: Read, convert_value: Convert) -> Read:
    """Read text by `decode_typed` where that is possible, otherwise by `decode` and `convert_value`.

    They must agree on every value; `convert_value` alone tells what is wrong with one.
    """

    def read(text: str) -> Any:
        if not has_escapes(text):
            try:
                return decode_typed(text)
            except UNREADABLE:
                pass
        return convert_value(decode_stored(text))

    return read


def plain_types(annotation: object) -> frozenset[type]:
    """Return those types of JSON of which every value fits the annotation as it is; none if that depends."""
    if is_untyped(annotation):
        return _JSON_TYPES
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        members = [plain_types(member) for member in arguments]
        return frozenset().union(*members) if all(members) else frozenset()
    *keys, items = arguments or (Any,)
    takes_anything = items is Any and all(key is str for key in keys)
    kind = annotation if origin is None else origin
    return frozenset(plain for plain in _JSON_TYPES if plain is kind and takes_anything)


def is_untyped(annotation: object) -> bool:
    """Does it say nothing about the value? Neither does a name that could not be resolved."""
    return any(annotation is each for each in _UNTYPED) or not is_resolved(annotation)


def is_resolved(annotation: object) -> bool:
    if isinstance(annotation, str | ForwardRef):
        return False
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return True
    return all(map(is_resolved, arguments[:1] if origin is Annotated else arguments))


class _Misfit(ValueError):  # noqa: N818 — becomes a PayloadError, or part of the message of msgspec
    pass


class _Unreadable(Exception):  # noqa: N818 — an answer, not an error
    pass


def _require_readable(annotation: object, name: str) -> None:
    """Refuse a type that no JSON can become, before any value comes along."""
    try:
        convert(UNSET, annotation, dec_hook=_probe, str_keys=True)
    except ValidationError:
        return  # it knows what it expects
    except _Unreadable:
        _refuse_annotation(annotation, name, "there is no way to make it from JSON")
    except Exception as error:  # noqa: BLE001 — TypeError, and whatever evaluating the annotations of fields raises
        _refuse_annotation(annotation, name, exception.text(error))


def _probe(kind: Any, _value: object) -> NoReturn:
    raise ValueError if _is_model(kind) else _Unreadable


def _refuse_annotation(annotation: object, name: str, problem: str) -> NoReturn:
    raise InvalidValueError(
        f"{name} cannot be given as {_shown(annotation)}: {problem}; "
        "annotate with a dataclass, a TypedDict, a pydantic model or JSON's own types, or leave it out"
    )


def _shown(annotation: object) -> str:
    return type_name(annotation) if isinstance(annotation, type) else str(annotation)


def _is_model(kind: type) -> bool:
    return hasattr(kind, "model_dump") and hasattr(kind, "model_validate")


def _read_model(kind: Any, value: Any) -> Any:
    if not _is_model(kind):
        raise TypeError(f"there is no way to make {_shown(kind)} from JSON")
    try:
        return kind.model_validate(value)
    except ValueError as error:
        return _read_strict_model(kind, value, error)


def _read_strict_model(kind: Any, value: Any, error: ValueError) -> Any:
    """A strict model takes a text for a date, or a list for a set, only if told that it reads JSON."""
    try:
        return kind.model_validate_json(dumps(value))
    except (AttributeError, TypeError, ValueError, RecursionError):
        raise _Misfit(_described(kind, error)) from None


def _described(kind: type, error: Any) -> str:
    """What pydantic found, without the values: they may be secret."""
    try:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        lines = [f"{_place(kind, each['loc'])}: {each['msg']}" for each in problems]
    except (AttributeError, LookupError, TypeError):
        return f"{type_name(kind)}: {exception.text(error)}"
    more = [f"and {len(lines) - _MAX_SHOWN} more"] if len(lines) > _MAX_SHOWN else []
    return "; ".join(lines[:_MAX_SHOWN] + more)


def _place(kind: type, location: Iterable[object]) -> str:
    return ".".join([type_name(kind), *map(str, location)])


class _Writing:
    """One walk through a value. `typed` says that a type around it tells how to read the keys of a dict."""

    def __init__(self, limits: JsonLimits) -> None:
        self._limits = limits
        self._items = limits.items

    def value(self, value: Any, path: Path, *, typed: bool) -> Any:
        kind = type(value)
        if len(path) > self._limits.depth:
            refuse(path, f"is nested deeper than {self._limits.depth} levels", FLATTEN)
        if kind in _LEAVES or kind is int or kind is float:
            return value
        if issubclass(kind, dict):
            return self._dict(value, path, typed)
        if issubclass(kind, list | tuple | set | frozenset):
            return self._list(value, path, typed)
        return self._object(value, path) if _has_fields(kind) else _written_leaf(value)

    def _dict(self, entries: dict[Any, Any], path: Path, typed: bool) -> dict[Any, Any]:
        self._count(dict.__len__(entries), path)
        written = {}
        for key, item in dict.items(entries):
            name = _written_key(key, typed)
            written[name] = self.value(item, (*path, name if type(name) is str else "?"), typed=typed)
        if len(written) != dict.__len__(entries):
            refuse(path, "has two keys that are the same as text", "give every key a text of its own")
        return written

    def _list(self, values: Any, path: Path, typed: bool) -> list[Any]:
        base = next(base for base in _LISTS if issubclass(type(values), base))
        self._count(base.__len__(values), path)
        items = enumerate(base.__iter__(values))
        written = [self.value(item, (*path, index), typed=typed) for index, item in items]
        return _in_order(written) if base in _SETS else written

    def _object(self, value: Any, path: Path) -> Any:
        """Of its own code, anything may be raised on the way."""
        try:
            if _is_model(type(value)):
                return value.model_dump(mode="json", by_alias=True, round_trip=True)
            written = {name: self.value(item, (*path, name), typed=True) for name, item in _fields(value)}
            return list(written.values()) if _is_array(type(value)) else written
        except NotStorableError:
            raise
        except Exception as error:  # noqa: BLE001
            problem = f"is of type {type_name(type(value))} and could not be read: {exception.text(error)}"
            refuse(path, problem, "hand in its fields as a dict")

    def _count(self, items: int, path: Path) -> None:
        self._items -= items
        if self._items < 0:
            refuse(path, f"takes the value over the limit of {self._limits.items:,} items", KEEP_ELSEWHERE)


_SETS: tuple[Any, ...] = (set, frozenset)
_LISTS: tuple[Any, ...] = (list, tuple, *_SETS)


def _in_order(values: list[Any]) -> list[Any]:
    """The elements of a set: equal sets give equal JSON, where the elements can be ordered."""
    try:
        return sorted(values)
    except TypeError:
        return values


def _has_fields(kind: type) -> bool:
    if hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__attrs_attrs__"):
        return True
    return issubclass(kind, Struct) or _is_model(kind)


def _is_array(kind: Any) -> bool:
    return issubclass(kind, Struct) and kind.__struct_config__.array_like


def _fields(value: Any) -> list[tuple[str, Any]]:
    """By hand, not by msgspec: it leaves out the fields whose names begin with an underscore."""
    kind = type(value)
    if issubclass(kind, Struct):
        return list(_struct_fields(value))
    described = fields(kind) if is_dataclass(kind) else kind.__attrs_attrs__
    return [(each.name, getattr(value, each.name)) for each in described if hasattr(value, each.name)]


def _struct_fields(value: Any) -> Iterator[tuple[str, Any]]:
    config = value.__struct_config__
    if config.tag is not None:
        yield config.tag_field, config.tag
    for name, written_name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        if getattr(value, name) is not UNSET or config.array_like:
            yield written_name, getattr(value, name)


def _written_key(key: Any, typed: bool) -> Any:
    written = key if type(key) in (str, int, float) else _written_leaf(key)
    return str(written) if typed and type(written) in (int, float) else written


def _written_leaf(value: Any) -> Any:
    """As msgspec writes it, if it reads the same back: it rounds the offset of a time zone to minutes."""
    try:
        written = to_builtins(value)
        read = convert(written, type(value))
        # An hour that the clocks repeat is never equal in another zone; its text is.
        return written if read == value or str(read) == str(value) else value
    except Exception:  # noqa: BLE001 — foreign code; the codec refuses what is left as it is
        return value
