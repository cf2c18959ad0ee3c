"""Edits of a stored payload by someone who sees it redacted.

A redaction mark is never accepted as a value. Where the stored payload, redacted, has exactly this text at
the same path, the edit leaves the original there; anywhere else the edit is refused. In a list, a path
identifies an item only while no item is added, removed or moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final, NoReturn, TypeAlias

from redrive.errors import InvalidValueError
from redrive.policy.codec import JsonValue, encode
from redrive.policy.json_path import Path, parse_path, path_text
from redrive.policy.redact import Redactor
from redrive.policy.redact.marker import MARKER
from redrive.words.number import plural

MAX_FIELDS: Final = 100

_MAX_LISTED = 20
_MAX_NAME_LENGTH = 60
_KINDS = {str: "a string", bool: "a boolean", int: "a number", float: "a number", type(None): "null"}
_REPAIR = (
    "Enter the real value there. To change single fields without the rest, use redrive dlq replay "
    "--set-field or set_fields in the API"
)


class _Missing:
    """Marks a path that the stored payload does not have."""


_MISSING: Final = _Missing()
_Place: TypeAlias = "JsonValue | _Missing"


class _Original:
    """The stored value at a path, and how people see it."""

    def __init__(self, stored: _Place = _MISSING, shown: _Place = _MISSING) -> None:
        self.stored = stored
        self.shown = shown

    def fields(self) -> dict[str, tuple[str, _Original]]:
        """Map each name, as shown, to the stored name and the value."""
        if not isinstance(self.stored, dict):
            return {}
        if not isinstance(self.shown, dict):  # the whole object is a secret
            return {name: (name, _Original(value)) for name, value in self.stored.items()}
        pairs = zip(self.stored.items(), self.shown.items(), strict=True)
        return {shown: (name, _Original(value, view)) for (name, value), (shown, view) in pairs}

    def items(self) -> list[_Original]:
        if not isinstance(self.stored, list):
            return []
        views: Sequence[_Place] = (
            self.shown if isinstance(self.shown, list) else [_MISSING] * len(self.stored)
        )
        return [_Original(value, view) for value, view in zip(self.stored, views, strict=True)]


def reject_marks(value: JsonValue) -> None:
    """Raise InvalidValueError if a new payload contains a redaction mark."""
    for path, mark in _marks(value, ()):
        raise InvalidValueError(
            f"the payload has the redaction mark {mark} at {_where(path)}, which stands for a value that is "
            f"not shown. Enter the real value"
        )


def restored(edited: JsonValue, stored: JsonValue, redactor: Redactor) -> JsonValue:
    """Return the edited payload with the stored values in place of their redaction marks.

    InvalidValueError if a mark is at a path where the stored payload does not have it.
    """
    if next(_marks(edited, ()), None) is None:
        return edited
    return _restored(edited, _Original(stored, redactor.value(stored)), ())


def patched(
    stored: JsonValue, set_fields: Mapping[str, JsonValue], remove_fields: Sequence[str], redactor: Redactor
) -> JsonValue:
    """Return a copy of the stored payload with some fields set and others removed, by their paths.

    All paths are those of the stored payload. A path that is set may end with a new field of an existing
    object, or with the index after the last item of a list; a path that is removed must exist.
    """
    if len(set_fields) + len(remove_fields) > MAX_FIELDS:
        raise InvalidValueError(f"at most {MAX_FIELDS} fields can be changed at once; pass the whole payload")
    sets = [(parse_path(text), value) for text, value in set_fields.items()]
    removes = [parse_path(text) for text in remove_fields]
    _check_overlap([*(path for path, _ in sets), *removes])
    result = deepcopy(stored)
    fields = _Fields(_Original(result, redactor.value(stored)), redactor)
    changes = [fields.change(path, value) for path, value in sets]
    # Items are removed from the end of their list, so that the other indexes stay valid.
    doomed = sorted(map(fields.removal, removes), key=_index_of, reverse=True)
    for container, key, value in changes:
        _put(container, key, value)
    for container, key in doomed:
        del container[key]
    return result


# Marks


def _marks(value: JsonValue, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of redaction marks in values and names, without recursion."""
    left = [(path, value)]
    while left:
        place, found = left.pop()
        if isinstance(found, str):
            if match := MARKER.search(found):
                yield place, match[0]
        elif isinstance(found, dict):
            yield from (((*place, name), match[0]) for name in found if (match := MARKER.search(name)))
            left += [((*place, name), item) for name, item in reversed(found.items())]
        elif isinstance(found, list):
            left += [((*place, index), found[index]) for index in reversed(range(len(found)))]


def _restored(edited: JsonValue, original: _Original, path: Path) -> JsonValue:
    if isinstance(edited, str):
        if match := MARKER.search(edited):
            return _kept(edited, original, path, match[0])
        return edited
    if isinstance(edited, dict):
        return _restored_dict(edited, original, path)
    if isinstance(edited, list):
        return _restored_list(edited, original, path)
    return edited


def _kept(edited: str, original: _Original, path: Path, mark: str) -> JsonValue:
    if original.shown != edited or isinstance(original.stored, _Missing):
        _refuse(path, mark, "where the stored payload does not have it")
    return original.stored


def _restored_dict(edited: dict[str, JsonValue], original: _Original, path: Path) -> JsonValue:
    fields, result = original.fields(), dict[str, JsonValue]()
    for name, value in edited.items():
        place = (*path, name)
        stored_name, own = fields.get(name, (name, _Original()))
        if name not in fields and (match := MARKER.search(name)):
            _refuse(place, match[0], "as a name that the stored payload does not have")
        if stored_name in result:
            raise InvalidValueError(
                f"the payload has the field at {_where(place)} twice: once with its name, once with its mark"
            )
        result[stored_name] = _restored(value, own, place)
    return result


def _restored_list(edited: list[JsonValue], original: _Original, path: Path) -> JsonValue:
    originals = original.items()
    if len(edited) != len(originals):
        for place, mark in _marks(edited, path):
            _refuse(place, mark, "in a list whose number of items changed, so it may belong to another item")
        return edited
    views: set[str] | None = None
    result: list[JsonValue] = []
    for index, (item, own) in enumerate(zip(edited, originals, strict=True)):
        place = (*path, index)
        if item != own.shown and (found := next(_marks(item, place), None)):
            if views is None:
                views = {encode(other.shown) for other in originals if not isinstance(other.shown, _Missing)}
            if encode(item) in views:
                _refuse(*found, "in an item that was moved within its list")
        result.append(_restored(item, own, place))
    return result


def _refuse(path: Path, mark: str, problem: str) -> NoReturn:
    raise InvalidValueError(
        f"the payload has the redaction mark {mark} at {_where(path)}, {problem}. {_REPAIR}"
    )


def _where(path: Path) -> str:
    return path_text(path) or "the payload itself"


# Single fields


def _check_overlap(paths: Sequence[Path]) -> None:
    known = set(paths)
    for path in paths:
        if len(known) < len(paths) or any(path[:length] in known for length in range(1, len(path))):
            raise InvalidValueError(
                f"the paths to change overlap at {path_text(path)}. Name each field once, and not together "
                f"with a field within it"
            )


def _index_of(place: tuple[Any, str | int]) -> int:
    return place[1] if isinstance(place[1], int) else -1


def _put(container: Any, key: str | int, value: JsonValue) -> None:
    if isinstance(container, list) and key == len(container):
        container.append(value)
    else:
        container[key] = value


class _Fields:
    """Finds the places in a payload that paths name."""

    def __init__(self, payload: _Original, redactor: Redactor) -> None:
        self._payload = payload
        self._redactor = redactor

    def change(self, path: Path, value: JsonValue) -> tuple[Any, str | int, JsonValue]:
        """Return the object or list to change, the name or the index in it, and the value to store."""
        parent, step = self._parent(path), path[-1]
        if isinstance(step, int):
            items = parent.items()
            if step > len(items):
                raise self._no_item(path, len(items))
            own = items[step] if step < len(items) else _Original()
            return parent.stored, step, _restored(value, own, path)
        name, own = parent.fields().get(step, (step, _Original()))
        if isinstance(own.stored, _Missing) and (match := MARKER.search(step)):
            _refuse(path, match[0], "as a name that the stored payload does not have")
        return parent.stored, name, _restored(value, own, path)

    def removal(self, path: Path) -> tuple[Any, str | int]:
        parent = self._parent(path)
        key, _ = self._child(parent, path)
        return parent.stored, key

    def _parent(self, path: Path) -> _Original:
        found = self._payload
        for depth in range(1, len(path)):
            _, found = self._child(found, path[:depth])
        self._require(found, path)
        return found

    def _child(self, parent: _Original, path: Path) -> tuple[str | int, _Original]:
        """Return the stored name or the index of the last step of a path, and the value there."""
        self._require(parent, path)
        step = path[-1]
        if isinstance(step, int):
            items = parent.items()
            if step >= len(items):
                raise self._no_item(path, len(items))
            return step, items[step]
        fields = parent.fields()
        if step not in fields:
            raise self._no_field(parent, path)
        return fields[step]

    def _require(self, parent: _Original, path: Path) -> None:
        """Raise InvalidValueError unless the last step of the path fits the kind of its parent."""
        by_name = isinstance(path[-1], str)
        if isinstance(parent.stored, dict if by_name else list):
            return
        kind = _KINDS.get(type(parent.stored)) or ("a list" if by_name else "an object")
        wanted = "fields" if by_name else "items"
        raise InvalidValueError(
            f"{self._named(path[:-1])} is {kind}, which has no {wanted}. Check the path {self._text(path)}"
        )

    def _no_field(self, parent: _Original, path: Path) -> InvalidValueError:
        names: list[str] = list(parent.shown) if isinstance(parent.shown, dict) else []
        listed = ", ".join(name[:_MAX_NAME_LENGTH] for name in names[:_MAX_LISTED])
        listed += ", …" if len(names) > _MAX_LISTED else ""
        return InvalidValueError(
            f"{self._named(path[:-1])} has no field {self._text(path[-1:])}"
            + (f"; its fields are {listed}" if listed else "")
        )

    def _no_item(self, path: Path, number: int) -> InvalidValueError:
        return InvalidValueError(
            f"{self._named(path[:-1])} has {plural(number, 'item')}, counted from 0, so there is no item "
            f"{self._text(path[-1:])}"
        )

    def _named(self, path: Path) -> str:
        return self._text(path) if path else "the payload"

    def _text(self, path: Path) -> str:
        return self._redactor.text(path_text(path))
