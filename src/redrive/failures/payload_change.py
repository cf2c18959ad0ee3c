"""The change of a payload for a replay, and how it differs from the stored payload, redacted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import NamedTuple

from redrive.engine.payload import to_json
from redrive.errors import InvalidValueError
from redrive.model.replay import HIDDEN, NOTHING
from redrive.policy.bounds import require_kind
from redrive.policy.codec import JsonLimits, JsonValue
from redrive.policy.json_path import Path, path_text
from redrive.policy.payload_edit import patched, restored
from redrive.policy.redact import Redactor

MAX_CHANGES = 200


class PayloadChange(NamedTuple):
    """What a caller asks to change: the whole payload, or fields by their paths (redrive.policy.json_path).

    payload        the new payload; ... keeps the stored one
    set_fields     new values by path
    remove_fields  the paths of fields and items to remove
    """

    payload: object = ...
    set_fields: Mapping[str, object] = {}
    remove_fields: Sequence[str] = ()

    @property
    def is_empty(self) -> bool:
        return self.payload is ... and not self.set_fields and not self.remove_fields

    def check(self) -> None:
        require_kind("set_fields", self.set_fields, Mapping)
        require_kind("remove_fields", self.remove_fields, list, tuple, set, frozenset)
        for path in (*self.set_fields, *self.remove_fields):
            require_kind("the path of a field", path, str)
        if self.payload is not ... and (self.set_fields or self.remove_fields):
            raise InvalidValueError("pass payload, or set_fields and remove_fields, but not both")

    def applied_to(self, stored: JsonValue, redactor: Redactor, limits: JsonLimits) -> JsonValue:
        """Return the changed payload. A redaction mark keeps the stored value or is refused."""
        if self.payload is not ...:
            return restored(to_json(self.payload, limits=limits), stored, redactor)
        sets = {path: to_json(value, limits=limits) for path, value in self.set_fields.items()}
        return patched(stored, sets, tuple(self.remove_fields), redactor)


def differences(before: JsonValue, after: JsonValue, redactor: Redactor) -> list[JsonValue]:
    """List the differences, redacted. A change within a redacted value is listed without the value."""
    redacted = _differences(redactor.value(before), redactor.value(after))
    visible = {path: (old, new) for path, old, new in redacted}
    changes: list[JsonValue] = []
    for path, _, _ in _differences(before, after):
        old, new = visible.get(path, (HIDDEN, HIDDEN))
        changes.append({"path": redactor.text(path_text(path)), "before": old, "after": new})
    return changes


def _differences(before: JsonValue, after: JsonValue) -> Iterator[tuple[Path, JsonValue, JsonValue]]:
    """Yield the path and both values of the smallest parts that differ."""
    return islice(_walk((), before, after), MAX_CHANGES)


def _walk(path: Path, before: JsonValue, after: JsonValue) -> Iterator[tuple[Path, JsonValue, JsonValue]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before | after:
            yield from _walk((*path, key), before.get(key, NOTHING), after.get(key, NOTHING))
    elif isinstance(before, list) and isinstance(after, list):
        for index, (old, new) in enumerate(zip_longest(before, after, fillvalue=NOTHING)):
            yield from _walk((*path, index), old, new)
    elif type(before) is not type(after) or before != after:
        yield path, before, after
