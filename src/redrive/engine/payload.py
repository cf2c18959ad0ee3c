"""Conversion between Python types and JSON, for payloads and results.

`to_json` writes values that `from_json` reads back into the annotated type: dataclasses, TypedDicts, msgspec
structs, attrs and pydantic classes; and dates, UUIDs, decimals, enums, sets and bytes (as base64). A `reader`
does the same with stored text, in one pass.

Plain JSON stays unchanged. The codec checks everything: a value without a JSON form is left in place, and the
codec rejects it with its path and advice.

pydantic models are recognized by their methods; pydantic is never imported.
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

from redrive.engine.payload_mismatch import payload_error
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
    """Convert the value to JSON that the codec accepts, or raise NotStorableError."""
    return json_and_text(value, limits=limits)[0]


def json_and_text(value: object, *, limits: JsonLimits = DEFAULT_LIMITS) -> tuple[JsonValue, str]:
    """Convert the value to JSON and to text."""
    if value is None:
        return None, "null"
    text = plain_text(value, limits=limits)
    if text is not None:
        return value, text  # type: ignore[return-value]
    plain: JsonValue = _JsonWriter(limits).value(value, (), typed=False)
    return plain, encode(plain, limits=limits)


def from_json(value: JsonValue, annotation: object, *, name: str = "payload") -> Any:
    """Convert the value to the annotated type, or raise PayloadError. `name` describes it in messages."""
    return converter(annotation, name=name)(value)


def converter(annotation: object, *, name: str = "payload") -> Convert:
    """Return a function that converts JSON values to the type and returns matching values unchanged."""
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
            raise payload_error(f"{name}: {error}", value, annotation) from None
        except RecursionError:
            raise PayloadError(f"{name}: nested too deeply") from None

    return converted


def _conversion(annotation: Any) -> Convert:
    if isinstance(annotation, type) and _is_model(annotation):
        return partial(_read_model, annotation)  # four times as fast as with msgspec
    # msgspec analyses a type on every call, unless it is the type of a field.
    holder = defstruct("Holder", [("value", annotation)], array_like=True)
    to_holder = partial(convert, type=holder, dec_hook=_read_model, str_keys=True)
    to_type = partial(convert, type=annotation, dec_hook=_read_model, str_keys=True)

    def converted(value: JsonValue) -> Any:
        try:
            return to_holder([value]).value
        except ValidationError:
            return to_type(value)  # its error message has the path within the value

    return converted


def reader(annotation: object, *, name: str = "payload") -> Read:
    """Return a function that parses stored text into the type. It returns a new value on every call."""
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
    """Return a function that reads text with `decode_typed` if possible, otherwise with `convert_value`.

    Both must agree on every value; only `convert_value` explains what is wrong with an invalid one.
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
    """Return the JSON types whose values always match the annotation unchanged; none if it depends."""
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
    """Whether the annotation says nothing about the value, or contains a name that could not be resolved."""
    return any(annotation is untyped for untyped in _UNTYPED) or not is_resolved(annotation)


def is_resolved(annotation: object) -> bool:
    if isinstance(annotation, str | ForwardRef):
        return False
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return True
    return all(map(is_resolved, arguments[:1] if origin is Annotated else arguments))


class _Misfit(ValueError):  # noqa: N818 — becomes a PayloadError, or part of msgspec's message
    pass


class _Unreadable(Exception):  # noqa: N818 — a signal, not an error
    pass


def _require_readable(annotation: object, name: str) -> None:
    """Reject a type that cannot be created from JSON before it is used."""
    try:
        convert(UNSET, annotation, dec_hook=_probe, str_keys=True)
    except ValidationError:
        return  # the type is supported; it only rejects UNSET
    except _Unreadable:
        _reject_annotation(annotation, name, "it cannot be created from JSON")
    except Exception as error:  # noqa: BLE001 — TypeError, or anything that evaluating annotations raises
        _reject_annotation(annotation, name, exception.text(error))


def _probe(kind: Any, _value: object) -> NoReturn:
    raise ValueError if _is_model(kind) else _Unreadable


def _reject_annotation(annotation: object, name: str, problem: str) -> NoReturn:
    raise InvalidValueError(
        f"{name} cannot have the type {_type_text(annotation)}: {problem}; "
        "annotate it with a dataclass, a TypedDict, a pydantic model or a JSON type, or omit the annotation"
    )


def _type_text(annotation: object) -> str:
    return type_name(annotation) if isinstance(annotation, type) else str(annotation)


def _is_model(kind: type) -> bool:
    return hasattr(kind, "model_dump") and hasattr(kind, "model_validate")


def _read_model(kind: Any, value: Any) -> Any:
    if not _is_model(kind):
        raise TypeError(f"{_type_text(kind)} cannot be created from JSON")
    try:
        return kind.model_validate(value)
    except ValueError as error:
        return _read_strict_model(kind, value, error)


def _read_strict_model(kind: Any, value: Any, error: ValueError) -> Any:
    """Read a strict model, which accepts a string for a date, or a list for a set, only in JSON mode."""
    try:
        return kind.model_validate_json(dumps(value))
    except (AttributeError, TypeError, ValueError, RecursionError):
        raise _Misfit(_validation_message(kind, error)) from None


def _validation_message(kind: type, error: Any) -> str:
    """Return pydantic's error messages without the values, which may be secret."""
    try:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        lines = [f"{_path_text(kind, problem['loc'])}: {problem['msg']}" for problem in problems]
    except (AttributeError, LookupError, TypeError):
        return f"{type_name(kind)}: {exception.text(error)}"
    more = [f"and {len(lines) - _MAX_SHOWN} more"] if len(lines) > _MAX_SHOWN else []
    return "; ".join(lines[:_MAX_SHOWN] + more)


def _path_text(kind: type, location: Iterable[object]) -> str:
    return ".".join([type_name(kind), *map(str, location)])


class _JsonWriter:
    """One pass through a value. `typed`: an enclosing type defines how to read the keys of a dict."""

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
        return self._object(value, path) if _has_fields(kind) else _leaf_to_json(value)

    def _dict(self, entries: dict[Any, Any], path: Path, typed: bool) -> dict[Any, Any]:
        self._count(dict.__len__(entries), path)
        json_value = {}
        for key, item in dict.items(entries):
            name = _key_to_json(key, typed)
            json_value[name] = self.value(item, (*path, name if type(name) is str else "?"), typed=typed)
        if len(json_value) != dict.__len__(entries):
            refuse(path, "has two keys that are equal as text", "use keys whose text differs")
        return json_value

    def _list(self, values: Any, path: Path, typed: bool) -> list[Any]:
        base = next(base for base in _LISTS if issubclass(type(values), base))
        self._count(base.__len__(values), path)
        items = enumerate(base.__iter__(values))
        json_value = [self.value(item, (*path, index), typed=typed) for index, item in items]
        return _in_order(json_value) if base in _SETS else json_value

    def _object(self, value: Any, path: Path) -> Any:
        """Convert an object by its fields. Its own code runs, which may raise anything."""
        try:
            if _is_model(type(value)):
                return value.model_dump(mode="json", by_alias=True, round_trip=True)
            json_value = {name: self.value(item, (*path, name), typed=True) for name, item in _fields(value)}
            return list(json_value.values()) if _is_array(type(value)) else json_value
        except NotStorableError:
            raise
        except Exception as error:  # noqa: BLE001
            problem = f"is of type {type_name(type(value))} and could not be read: {exception.text(error)}"
            refuse(path, problem, "pass its fields as a dict")

    def _count(self, items: int, path: Path) -> None:
        self._items -= items
        if self._items < 0:
            refuse(path, f"makes the value exceed the limit of {self._limits.items:,} items", KEEP_ELSEWHERE)


_SETS: tuple[Any, ...] = (set, frozenset)
_LISTS: tuple[Any, ...] = (list, tuple, *_SETS)


def _in_order(values: list[Any]) -> list[Any]:
    """Sort the elements of a set, if possible, so that equal sets have equal JSON."""
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
    """List the fields without msgspec, which omits fields whose names start with an underscore."""
    kind = type(value)
    if issubclass(kind, Struct):
        return list(_struct_fields(value))
    described = fields(kind) if is_dataclass(kind) else kind.__attrs_attrs__
    return [(field.name, getattr(value, field.name)) for field in described if hasattr(value, field.name)]


def _struct_fields(value: Any) -> Iterator[tuple[str, Any]]:
    config = value.__struct_config__
    if config.tag is not None:
        yield config.tag_field, config.tag
    for name, json_name in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        if getattr(value, name) is not UNSET or config.array_like:
            yield json_name, getattr(value, name)


def _key_to_json(key: Any, typed: bool) -> Any:
    json_value = key if type(key) in (str, int, float) else _leaf_to_json(key)
    return str(json_value) if typed and type(json_value) in (int, float) else json_value


def _leaf_to_json(value: Any) -> Any:
    """Write a value with msgspec if it reads back the same; it rounds time zone offsets to minutes."""
    try:
        json_value = to_builtins(value)
        read = convert(json_value, type(value))
        # A time in the repeated hour when the clocks go back never equals one in another zone; its text does.
        return json_value if read == value or str(read) == str(value) else value
    except Exception:  # noqa: BLE001 — user code; the codec rejects a value that is left unchanged
        return value
