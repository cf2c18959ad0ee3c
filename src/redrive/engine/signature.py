"""How a task function is called: looked at once when it is registered, then only followed.

    named `context`, or annotated with the context's class    is given the context
    named `config`                                            is given the config of the step
    one other parameter                                       is given the whole payload
    several others                                            are given the entries of the payload, by name

What `functools.partial` has set by keyword is settled and not asked for. An annotation that cannot be
resolved when the function is registered counts as none; `Signature.unresolved` names those parameters.
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
from redrive.errors import InvalidValueError, PayloadError
from redrive.policy.codec import JsonValue, decode_stored
from redrive.words.suggestion import suggest

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
_Source: TypeAlias = Literal["payload", "config", "context"]
_Plan: TypeAlias = Callable[[str, object, str], Arguments]

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_ALTERNATIVES = (Union, UnionType, Annotated)


@dataclass(frozen=True, slots=True)
class Signature:
    """How a function is called.

    arguments  returns what to call the function with. It reads payload and config from text, so that the
               function may change what it is given
    check      raises PayloadError, before anything is stored, for a payload that the function could never be
               called with
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
        given = _from("payload", parameters)
        reading = _reading(f"payload of {task!r}", given)
        return cls(
            task,
            _is_async(function),
            _unresolved(parameters),
            _positioned(_plan(reading.read, parameters, task), parameters),
            reading.convert,
            inspect.Signature([parameter.parameter for parameter in given]),
            _result_reader(function, task),
        )

    def payload(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        """The payload for these arguments of the function: the one argument itself, or several by name."""
        try:
            given = self.called_with.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self.name}: {error}") from None
        if len(self.called_with.parameters) > 1:
            return given
        return next(iter(given.values()), None)


class _Parameter(NamedTuple):
    name: str
    source: _Source
    annotation: Any
    parameter: Parameter

    @property
    def is_required(self) -> bool:
        return self.parameter.default is Parameter.empty


class _Reading(NamedTuple):
    """Two ways to the arguments that a payload stands for: from its text, and from its value."""

    read: Callable[[str], dict[str, Any]]
    convert: Callable[[JsonValue], dict[str, Any]]


def _from(source: _Source, parameters: list[_Parameter]) -> list[_Parameter]:
    return [each for each in parameters if each.source == source]


def _unresolved(parameters: list[_Parameter]) -> tuple[str, ...]:
    return tuple(
        each.name for each in parameters if each.source != "context" and not is_resolved(each.annotation)
    )


def _name_of(function: Any) -> str:
    inner = innermost(function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def _called(function: Any) -> Any:
    """What runs: the function itself, or the `__call__` of an object."""
    return function if inspect.isroutine(function) else type(function).__call__


def _globals_of(function: Any) -> dict[str, Any]:
    """Where the names in its annotations are looked up, behind partials, decorators and methods."""
    written = inspect.unwrap(_called(inspect.unwrap(innermost(function))))
    return getattr(written, "__globals__", {})


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(_called(innermost(function)))


def _require_function(function: Any, task: str) -> None:
    inner = innermost(function)
    if not callable(inner) or isinstance(inner, type):
        what = "a class" if isinstance(inner, type) else f"of type {type(inner).__name__}"
        raise InvalidValueError(f"task {task!r} is {what}; register a function")
    called = _called(inner)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise InvalidValueError(f"task {task!r} is a generator; return one value instead, such as a list")


def _parameters(function: Any, context_type: type, task: str) -> list[_Parameter]:
    settled = function.keywords if isinstance(function, partial) else {}
    names = _globals_of(function)
    return [
        _parameter(each, names, context_type, task)
        for each in _inspected(function, task).parameters.values()
        if each.name not in settled
    ]


def _inspected(function: Any, task: str) -> inspect.Signature:
    try:
        if sys.version_info >= (3, 14):
            from annotationlib import Format

            return inspect.signature(function, annotation_format=Format.FORWARDREF)
        return inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidValueError(
            f"task {task!r} does not tell its parameters; wrap it in a function that names them"
        ) from None


def _parameter(parameter: Parameter, names: dict[str, Any], context_type: type, task: str) -> _Parameter:
    if parameter.kind in _VARIADIC:
        raise InvalidValueError(f"task {task!r} has the parameter {parameter}; name every parameter instead")
    annotation = _resolved(parameter.annotation, names)
    source = _source(parameter.name, annotation, context_type)
    return _Parameter(parameter.name, source, annotation, parameter)


def _source(name: str, annotation: Any, context_type: type) -> _Source:
    if name == "context" or _is_context(annotation, context_type):
        return "context"
    return "config" if name == "config" else "payload"


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    """One at a time: a name that is known only to the type checker does not spoil the others."""

    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    try:
        return get_type_hints(holder, names, include_extras=True)["it"]
    except Exception:  # noqa: BLE001 — evaluating an annotation can raise anything
        return annotation


def _is_context(annotation: Any, context_type: type) -> bool:
    """An annotation that only the type checker can resolve is judged by its text."""
    text = getattr(annotation, "__forward_arg__", annotation)
    if isinstance(text, str):
        return context_type.__name__ in re.findall(r"\w+", text)
    origin = get_origin(annotation)
    if origin in _ALTERNATIVES:
        return any(_is_context(each, context_type) for each in get_args(annotation))
    return annotation is context_type or origin is context_type


def _reading(owner: str, parameters: list[_Parameter]) -> _Reading:
    if not parameters:
        return _Reading(lambda text: {}, lambda value: {})
    if len(parameters) == 1:
        return _whole(owner, parameters[0])
    return _by_name(owner, parameters)


def _result_reader(function: Any, task: str) -> Read:
    """Return what reads a stored result in the type that the function is annotated to return, or as JSON."""
    annotation = _resolved(_inspected(function, task).return_annotation, _globals_of(function))
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
    """Read all entries at once, as a struct: the path in a message then begins with the name."""
    types = {parameter.name: plain_types(parameter.annotation) for parameter in parameters}
    required = frozenset(parameter.name for parameter in parameters if parameter.is_required)
    names, all_plain, struct = tuple(types), all(types.values()), _struct(owner, parameters)
    convert, decode_typed = converter(struct, name=owner), typed_decoder(struct)

    def convert_entries(payload: JsonValue) -> dict[str, Any]:
        entries = {} if payload is None and not required else payload
        if not isinstance(entries, dict) or not required <= entries.keys() <= types.keys():
            raise PayloadError(f"{owner}: {_misfit(entries, frozenset(types), required)}")
        if all_plain and all(type(entry) in types[name] for name, entry in entries.items()):
            return entries
        return _entries(names, convert(entries))

    def decode_entries(text: str) -> dict[str, Any]:
        return _entries(names, decode_typed(text))

    return _Reading(read_at_once(decode_entries, convert_entries), convert_entries)


def _struct(owner: str, parameters: list[_Parameter]) -> type[Struct]:
    """Make a struct with a field for each parameter; one that the payload does not have is UNSET."""
    for parameter in parameters:  # rejects a type that no JSON can become, with the name of the parameter
        converter(parameter.annotation, name=f"{parameter.name!r} in the {owner}")
    fields = [
        (
            f"field_{number}",  # a struct cannot have every name that a parameter can have
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
        return f"expected an object with {_listed(names)}, got {_json_name(payload)}"
    missing = required - payload.keys()
    if not missing:
        return _unknown(payload.keys() - names, names)
    unknown = payload.keys() - names
    return f"{_listed(missing)} missing" + (f", and {_unknown(unknown, names)}" if unknown else "")


def _unknown(unknown: Iterable[str], names: frozenset[str]) -> str:
    name = min(unknown)
    return f"{name[:60]!r} is unknown; {suggest(name, names)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


def _json_name(value: object) -> str:
    return "null" if value is None else f"`{type(value).__name__}`"


def _plan(read: Callable[[str], dict[str, Any]], parameters: list[_Parameter], task: str) -> _Plan:
    contexts = [each.name for each in _from("context", parameters)]
    configs = _from("config", parameters)
    if not contexts and not configs:
        return lambda payload, context, config: ((), read(payload))
    read_config = _reading(f"config of {task!r}", configs).read

    def arguments(payload: str, context: object, config: str) -> Arguments:
        return (), {**read(payload), **read_config(config), **dict.fromkeys(contexts, context)}

    return arguments


def _positioned(plan: _Plan, parameters: list[_Parameter]) -> _Plan:
    """The same plan for a function with positional-only parameters."""
    positions = [
        (each.name, each.parameter.default)
        for each in parameters
        if each.parameter.kind is Parameter.POSITIONAL_ONLY
    ]
    if not positions:
        return plan

    def arguments(payload: str, context: object, config: str) -> Arguments:
        _, named = plan(payload, context, config)
        return tuple(named.pop(name, default) for name, default in positions), named

    return arguments
