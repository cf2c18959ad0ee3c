"""The signature of a task function: analyzed when the task is registered, used on every call.

    named `context`, or annotated with the context's class    receives the context
    named `config`                                            receives the config of the step
    one other parameter                                       receives the whole payload
    several other parameters                                  receive the entries of the payload, by name

Keyword arguments set by `functools.partial` are not parameters. An annotation that cannot be resolved when
the function is registered is ignored; `Signature.unresolved` lists those parameters.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import Parameter
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from msgspec import NODEFAULT, UNSET, Struct, defstruct
from msgspec.structs import astuple

from redrive.callables import innermost
from redrive.engine.payload import (
    Read,
    converter,
    is_resolved,
    is_untyped,
    plain_types,
    read_at_once,
    reader,
    typed_decoder,
)
from redrive.engine.payload_mismatch import payload_error
from redrive.errors import InvalidValueError
from redrive.policy.codec import JsonValue, decode_stored
from redrive.words.suggestion import suggest

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
_Source: TypeAlias = Literal["payload", "config", "context"]
_Plan: TypeAlias = Callable[[str, object, str], Arguments]

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_ALTERNATIVES = (Union, UnionType, Annotated)


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a task function.

    arguments  returns the arguments of a call. It parses payload and config from text, so the function may
               modify its arguments
    check      raises PayloadError for a payload that does not match the parameters, before a run is stored
    """

    name: str
    is_async: bool
    unresolved: tuple[str, ...]
    arguments: _Plan
    check: Callable[[JsonValue], object]
    called_with: inspect.Signature
    result: Read

    @classmethod
    def of(cls, function: Callable[..., Any], context_type: type, name: str | None = None) -> Signature:
        task = name or _name_of(function)
        _require_function(function, task)
        parameters = _parameters(function, context_type, task)
        payload_parameters = _from("payload", parameters)
        reading = _reading(f"payload of {task!r}", payload_parameters)
        return cls(
            task,
            _is_async(function),
            _unresolved(parameters),
            _with_positions(_plan(reading.read, parameters, task), parameters),
            reading.convert,
            inspect.Signature(
                [
                    parameter.parameter.replace(annotation=parameter.annotation)
                    for parameter in payload_parameters
                ]
            ),
            _result_reader(function, task),
        )

    def payload(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        """Return the payload for these arguments: the argument itself, or several arguments by name."""
        try:
            arguments = self.called_with.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}") from None
        if len(self.called_with.parameters) > 1:
            return arguments
        return next(iter(arguments.values()), None)


class _Parameter(NamedTuple):
    name: str
    source: _Source
    annotation: Any
    parameter: Parameter

    @property
    def is_required(self) -> bool:
        return self.parameter.default is Parameter.empty


class _Reading(NamedTuple):
    """Two ways to convert a payload to arguments: from text and from a JSON value."""

    read: Callable[[str], dict[str, Any]]
    convert: Callable[[JsonValue], dict[str, Any]]


def _from(source: _Source, parameters: list[_Parameter]) -> list[_Parameter]:
    return [parameter for parameter in parameters if parameter.source == source]


def _unresolved(parameters: list[_Parameter]) -> tuple[str, ...]:
    return tuple(
        parameter.name
        for parameter in parameters
        if parameter.source != "context" and not is_resolved(parameter.annotation)
    )


def _name_of(function: Any) -> str:
    inner = innermost(function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def _called(function: Any) -> Any:
    """Return the function that runs: the function itself, or the `__call__` of an object."""
    return function if inspect.isroutine(function) else type(function).__call__


def _globals_of(function: Any) -> dict[str, Any]:
    """Return the globals for the names in annotations, looking through partials, decorators and methods."""
    original = inspect.unwrap(_called(inspect.unwrap(innermost(function))))
    return getattr(original, "__globals__", {})


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(_called(innermost(function)))


def _require_function(function: Any, task: str) -> None:
    inner = innermost(function)
    if not callable(inner) or isinstance(inner, type):
        kind = "a class" if isinstance(inner, type) else f"of type {type(inner).__name__}"
        raise InvalidValueError(f"task {task!r} is {kind}; register a function")
    called = _called(inner)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise InvalidValueError(f"task {task!r} is a generator; return one value instead, such as a list")


def _parameters(function: Any, context_type: type, task: str) -> list[_Parameter]:
    preset = function.keywords if isinstance(function, partial) else {}
    names = _globals_of(function)
    return [
        _parameter(parameter, names, context_type, task)
        for parameter in _inspect(function, task).parameters.values()
        if parameter.name not in preset
    ]


def _inspect(function: Any, task: str) -> inspect.Signature:
    try:
        if sys.version_info >= (3, 14):
            from annotationlib import Format

            return inspect.signature(function, annotation_format=Format.FORWARDREF)
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidValueError(
            f"task {task!r} has no readable signature; wrap it in a function with named parameters"
        ) from None


def _parameter(parameter: Parameter, names: dict[str, Any], context_type: type, task: str) -> _Parameter:
    if parameter.kind in _VARIADIC:
        raise InvalidValueError(f"task {task!r} has the parameter {parameter}; name every parameter instead")
    annotation = _resolve(parameter.annotation, names)
    source = _source(parameter.name, annotation, context_type)
    return _Parameter(parameter.name, source, annotation, parameter)


def _source(name: str, annotation: Any, context_type: type) -> _Source:
    if name == "context" or _is_context(annotation, context_type):
        return "context"
    return "config" if name == "config" else "payload"


def _resolve(annotation: Any, names: dict[str, Any]) -> Any:
    """Resolve a single annotation, so that a name known only to type checkers does not affect the others."""

    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    try:
        return get_type_hints(holder, names, include_extras=True)["it"]
    except Exception:  # noqa: BLE001 — evaluating an annotation can raise anything
        return annotation


def _is_context(annotation: Any, context_type: type) -> bool:
    """Whether the annotation is the context's class. An unresolvable annotation is checked by its text."""
    text = getattr(annotation, "__forward_arg__", annotation)
    if isinstance(text, str):
        return context_type.__name__ in re.findall(r"\w+", text)
    origin = get_origin(annotation)
    if origin in _ALTERNATIVES:
        return any(_is_context(argument, context_type) for argument in get_args(annotation))
    return annotation is context_type or origin is context_type


def _reading(owner: str, parameters: list[_Parameter]) -> _Reading:
    if not parameters:
        return _Reading(lambda text: {}, lambda value: {})
    if len(parameters) == 1:
        return _whole(owner, parameters[0])
    return _by_name(owner, parameters)


def _result_reader(function: Any, task: str) -> Read:
    """Return the reader for stored results: it returns the annotated return type, or JSON."""
    annotation = _resolve(_inspect(function, task).return_annotation, _globals_of(function))
    try:
        return reader(annotation, name=f"result of {task!r}")
    except InvalidValueError:
        return decode_stored


def _whole(owner: str, parameter: _Parameter) -> _Reading:
    name, annotation = parameter.name, parameter.annotation
    convert, read = converter(annotation, name=owner), reader(annotation, name=owner)
    if parameter.is_required:
        return _Reading(lambda text: {name: read(text)}, lambda value: {name: convert(value)})
    return _Reading(
        lambda text: {} if text == "null" else {name: read(text)},
        lambda value: {} if value is None else {name: convert(value)},
    )


def _by_name(owner: str, parameters: list[_Parameter]) -> _Reading:
    """Read all entries at once as a struct, so that the path in an error message starts with the name."""
    types = {parameter.name: plain_types(parameter.annotation) for parameter in parameters}
    required = frozenset(parameter.name for parameter in parameters if parameter.is_required)
    names, all_plain, struct = tuple(types), all(types.values()), _struct(owner, parameters)
    convert, decode_typed = converter(struct, name=owner), typed_decoder(struct)

    def convert_entries(payload: JsonValue) -> dict[str, Any]:
        entries = {} if payload is None and not required else payload
        if not isinstance(entries, dict) or not required <= entries.keys() <= types.keys():
            raise payload_error(f"{owner}: {_misfit(entries, frozenset(types), required)}", entries, struct)
        if all_plain and all(type(entry) in types[name] for name, entry in entries.items()):
            return entries
        return _entries(names, convert(entries))

    def decode_entries(text: str) -> dict[str, Any]:
        return _entries(names, decode_typed(text))

    return _Reading(read_at_once(decode_entries, convert_entries), convert_entries)


def _struct(owner: str, parameters: list[_Parameter]) -> type[Struct]:
    """Create a struct with a field for each parameter. A field missing in the payload is UNSET."""
    for parameter in parameters:  # rejects types that cannot be created from JSON, and names the parameter
        converter(parameter.annotation, name=f"{parameter.name!r} in the {owner}")
    fields = [
        (
            f"field_{number}",  # not every parameter name is allowed as a field name
            Any if is_untyped(parameter.annotation) else parameter.annotation,
            NODEFAULT if parameter.is_required else UNSET,
        )
        for number, parameter in enumerate(parameters)
    ]
    names = {field[0]: parameter.name for field, parameter in zip(fields, parameters, strict=True)}
    return defstruct("Payload", fields, rename=names, kw_only=True, forbid_unknown_fields=True)


def _entries(names: Sequence[str], struct: Struct) -> dict[str, Any]:
    return {name: value for name, value in zip(names, astuple(struct), strict=True) if value is not UNSET}


def _misfit(payload: Any, names: frozenset[str], required: frozenset[str]) -> str:
    if not isinstance(payload, dict):
        return f"expected an object with {_name_list(names)}, got {_json_name(payload)}"
    missing = required - payload.keys()
    if not missing:
        return _unknown(payload.keys() - names, names)
    unknown = payload.keys() - names
    return f"{_name_list(missing)} missing" + (f", and {_unknown(unknown, names)}" if unknown else "")


def _unknown(unknown: Iterable[str], names: frozenset[str]) -> str:
    name = min(unknown)
    return f"{name[:60]!r} is unknown; {suggest(name, names)}"


def _name_list(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _json_name(value: object) -> str:
    return "null" if value is None else f"`{type(value).__name__}`"


def _plan(read: Callable[[str], dict[str, Any]], parameters: list[_Parameter], task: str) -> _Plan:
    contexts = [parameter.name for parameter in _from("context", parameters)]
    configs = _from("config", parameters)
    if not contexts and not configs:
        return lambda payload, context, config: ((), read(payload))
    read_config = _reading(f"config of {task!r}", configs).read

    def arguments(payload: str, context: object, config: str) -> Arguments:
        return (), {**read(payload), **read_config(config), **dict.fromkeys(contexts, context)}

    return arguments


def _with_positions(plan: _Plan, parameters: list[_Parameter]) -> _Plan:
    """Pass positional-only parameters by position."""
    positions = [
        (parameter.name, parameter.parameter.default)
        for parameter in parameters
        if parameter.parameter.kind is Parameter.POSITIONAL_ONLY
    ]
    if not positions:
        return plan

    def arguments(payload: str, context: object, config: str) -> Arguments:
        _, named = plan(payload, context, config)
        return tuple(named.pop(name, default) for name, default in positions), named

    return arguments
