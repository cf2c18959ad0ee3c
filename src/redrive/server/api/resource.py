"""Resources: the OpenAPI schema and the JSON of a model class, both derived from its declaration.

Fields, types and meanings are those of the class, which may be a NamedTuple, a dataclass or a Struct.
Instants become RFC 3339, nested classes become objects. A resource lists only what differs, so a field that
is added to the class is in the API without a change here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from enum import Enum
from inspect import cleandoc
from types import UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, create_model

from redrive.model.decision import DecisionFacts
from redrive.model.fact import CountedFact, Fact
from redrive.model.failure import PayloadMismatch
from redrive.model.field import Meaning
from redrive.model.query import Count
from redrive.server.answer import when
from redrive.words.decision import explain
from redrive.words.fact import counted_to_json, to_json
from redrive.words.state import status as status_of

T = TypeVar("T")

Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
_FIELD_LINE = re.compile(r"^(\w+) {2,}(\S.*)$")


class ResponseBody(BaseModel):
    """The body of a response. Responses are not validated at run time; the tests compare them with it."""

    model_config = ConfigDict(extra="forbid")


class FactShape(BaseModel):
    """A fact: a code and values for programs, and a text for people."""

    model_config = ConfigDict(extra="allow")

    code: str
    text: str


class CountedFactShape(FactShape):
    """A fact and the number of items that it applies to."""

    items: int


class Resource(Generic[T]):
    """`model` is the schema of a class, `view` returns the JSON value for one of its instances."""

    def __init__(
        self,
        cls: type[T],
        name: str,
        *,
        description: str = "",
        only: Collection[str] = (),
        hidden: Collection[str] = (),
        renamed: Mapping[str, str] | None = None,
        types: Mapping[str, Any] | None = None,
        properties: Collection[str] = (),
        computed: Mapping[str, Callable[[T], Any]] | None = None,
        flattened: Collection[str] = (),
        status: Callable[[T], str] | None = None,
    ) -> None:
        """
        name         of the schema in the OpenAPI document
        description  of the schema; by default, the docstring of the class
        only         the fields to show; by default, all that are not hidden
        renamed      fields that have another name in the API
        types        fields that are declared more precisely here than in the class
        properties   of the class that are shown like fields
        computed     further fields, or other values of fields, with the functions that return them
        flattened    fields that hold another class; its fields are shown instead
        status       the word of the state for people; by default, of the field `state`, if it is shown
        """
        computed = dict(computed or {})
        if status is not None or ("state" in _field_names(cls) and not hasattr(cls, "status") and not only):
            computed["status"] = status or _status
        text, documented = _documentation(cls)
        hints = {**get_type_hints(cls, include_extras=True), **(types or {})}
        hints |= {field: _return_type(getattr(cls, field).fget) for field in properties}
        shown = [*(only or (field for field in _field_names(cls) if field not in hidden)), *properties]
        self.members: list[_Member] = []
        for field in shown:
            if field in flattened:
                nested = resource_of(hints[field])
                self.members += [member.within(field) for member in nested.members]
            elif field not in computed:
                public = (renamed or {}).get(field, field)
                form = _form(hints[field])
                self.members.append(_Member(public, f"value.{field}", None, form, documented.get(field)))
        for public, function in computed.items():
            form = _form(_return_type(function))
            self.members.append(_Member(public, "value", function, form, documented.get(public)))
        self.view: Callable[[T], dict[str, Any]] = _compile(self.members)
        fields: Any = {
            member.name: (member.form.kind, Field(description=member.description)) for member in self.members
        }
        text = description or text
        self.model: type[BaseModel] = create_model(name, __base__=ResponseBody, __doc__=text, **fields)
        _resources.setdefault(cls, self)

    def views(self, values: Sequence[T]) -> list[dict[str, Any]]:
        view = self.view
        return [view(value) for value in values]

    def page(self, name: str) -> type[BaseModel]:
        """Return the schema of a page of these resources."""
        items: Any = list[self.model]  # type: ignore[name-defined]  # a class that is made at run time
        return create_model(name, __base__=ResponseBody, items=(items, ...), next_cursor=(str | None, ...))


_resources: dict[type, Resource[Any]] = {}


def resource_of(cls: type[T]) -> Resource[T]:
    """Return the first resource of this class. A nested class needs one too, to name its schema."""
    if cls not in _resources:
        raise TypeError(f"{cls.__name__} has no resource; declare one before using the class")
    return _resources[cls]


class _Form(NamedTuple):
    """How values of a type are shown. `convert` is None if the value is JSON already."""

    kind: Any
    convert: Callable[[Any], Any] | None = None
    optional: bool = False


class _Member(NamedTuple):
    """A member of the JSON object: the value at `source`, or what `function` returns for it."""

    name: str
    source: str
    function: Callable[[Any], Any] | None
    form: _Form
    description: str | None

    def within(self, field: str) -> _Member:
        return self._replace(source=self.source.replace("value", f"value.{field}", 1))


def _compile(members: Sequence[_Member]) -> Callable[[Any], dict[str, Any]]:
    """Write the view as a function: it runs for every row of every page.

    It fills a copy of a dict that has all names already, which is faster than a dict that grows.
    """
    names: dict[str, Any] = {"empty": dict.fromkeys(member.name for member in members)}
    lines = ["def view(value):", "fields = empty.copy()"]
    for number, (name, source, function, form, _) in enumerate(members):
        names[f"function{number}"], names[f"convert{number}"] = function, form.convert
        text = source if function is None else f"function{number}({source})"
        if form.convert is None:
            lines.append(f"fields[{name!r}] = {text}")
        elif form.optional:
            lines.append(f"if (it := {text}) is not None: fields[{name!r}] = convert{number}(it)")
        else:
            lines.append(f"fields[{name!r}] = convert{number}({text})")
    exec("\n    ".join([*lines, "return fields"]), names)  # noqa: S102 - names of fields, no input
    view: Callable[[Any], dict[str, Any]] = names["view"]
    return view


def _form(annotation: Any) -> _Form:
    """Return how values of a declared type are shown."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return next(
            (_MEANINGS[extra] for extra in arguments[1:] if isinstance(extra, Meaning)), _form(arguments[0])
        )
    if origin in (Union, UnionType):
        return _union_form([part for part in arguments if part is not type(None)])
    if origin in (Mapping, dict):
        return _mapping_form(*arguments)
    if origin in (tuple, list, Sequence):
        return _list_form(_form(arguments[0]))
    if annotation in (Any, object):
        return _Form(Any)
    if origin is Literal or issubclass(annotation, (str, int, float, Enum)):
        return _Form(annotation)
    if annotation in _FACTS:
        return _FACTS[annotation]
    nested = resource_of(annotation)
    return _Form(nested.model, nested.view)


def _union_form(parts: Sequence[Any]) -> _Form:
    if len(parts) > 1:  # the union of what JSON can hold
        return _Form(Any)
    form = _form(parts[0])
    if form.kind is Any:
        return form
    return _Form(form.kind | None, form.convert, True)


def _list_form(inner: _Form) -> _Form:
    convert = inner.convert
    if convert is None:
        return _Form(list[inner.kind])  # type: ignore[name-defined]
    return _Form(list[inner.kind], lambda values: [convert(value) for value in values])  # type: ignore[name-defined]


def _mapping_form(key: Any, value: Any) -> _Form:
    inner = _form(value)
    convert = inner.convert
    kind: Any = dict[key, inner.kind]  # type: ignore[name-defined]
    if convert is None:
        return _Form(kind, dict)
    return _Form(kind, lambda values: {name: convert(value) for name, value in values.items()})


_FACTS = {Fact: _Form(FactShape, to_json), CountedFact: _Form(CountedFactShape, counted_to_json)}
_MEANINGS = {
    Meaning.INSTANT: _Form(Moment, when),
    Meaning.JSON: _Form(Any),
    Meaning.JSON_LIST: _Form(list[str], list),
    Meaning.JSON_OBJECT: _Form(dict[str, Any]),
}


# Declarations of a class


def _field_names(cls: type) -> Sequence[str]:
    for attribute in ("_fields", "__struct_fields__"):
        if (names := getattr(cls, attribute, None)) is not None:
            return tuple(names)
    return [field.name for field in dataclass_fields(cls)]


def _return_type(function: Callable[..., Any]) -> Any:
    return get_type_hints(function, include_extras=True)["return"]


def _documentation(cls: type) -> tuple[str | None, Mapping[str, str]]:
    """Return the docstring of a class, and the meanings in lines such as "field  meaning", bases included."""
    fields: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        prose: list[str] = []
        last = ""
        for line in cleandoc(base.__doc__ or "").splitlines():
            if (found := _FIELD_LINE.match(line)) and found[1] in _field_names(cls):
                last = found[1]
                fields[last] = found[2]
            elif last and line.startswith(" "):
                fields[last] += f" {line.strip()}"
            else:
                prose.append(line)
                last = ""
    text = "\n".join(prose).strip()
    is_generated = text.startswith(f"{cls.__name__}(")  # by NamedTuple or dataclass
    in_json = {field: meaning.replace("None", "null") for field, meaning in fields.items()}
    return None if is_generated or not text else text, in_json


def _status(value: Any) -> str:
    return status_of(value.state)


COUNT = Resource(Count, "CountShape")
MISMATCH = Resource(PayloadMismatch, "PayloadMismatchShape")
DECISION = Resource(DecisionFacts, "DecisionShape", computed={"text": explain})
"""Shared by most resources."""
