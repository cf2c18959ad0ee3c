"""Entries of Redis streams: their fields as JSON without loss, and the event that an entry means."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from redrive.errors import InvalidEntryError, NotStorableError
from redrive.model.stream import Event, StreamPosition, position_of
from redrive.policy.codec import JsonValue, decode

_BINARY = "$base64"
_BINARY_NAME = "$base64:"
TYPE_FIELDS = ("type", "event_type")
SOURCE_FIELDS = ("source",)
USER_FIELDS = ("user", "user_id")
KEY_FIELDS = ("dedupe_key", "event_id", "id")
TIME_FIELDS = ("occurred_at",)
PAYLOAD_FIELDS = ("payload", "data", "body")
ORG_FIELDS = ("org", "org_id")


class StreamEntry(NamedTuple):
    """An entry of a stream, as Redis delivers it. Field names and values are bytes.

    generation  of the stream: a new one starts when Redis comes back empty, and may use ids again
    """

    message_id: str
    fields: Mapping[bytes, bytes]
    generation: int = 1

    @property
    def position(self) -> StreamPosition:
        return position_of(self.message_id)

    @property
    def size(self) -> int:
        """The bytes of all names and values."""
        return sum(len(name) + len(value) for name, value in self.fields.items())

    def text(self, *names: str) -> str | None:
        """Return the first of these fields that the entry has and that is not empty, as text."""
        for name in names:
            value = self.fields.get(name.encode())
            if value:
                return _text(name, value)
        return None

    def to_json(self) -> dict[str, JsonValue]:
        """Return the fields as JSON. A name or value that is not UTF-8 becomes base64."""
        return {_name_to_json(name): _value_to_json(value) for name, value in self.fields.items()}


def entry_from_json(message_id: str, fields: Mapping[str, Any], generation: int) -> StreamEntry:
    """Read an entry that `StreamEntry.to_json` wrote, or that a person has edited before a replay."""
    read = {_name_from_json(name): _value_from_json(name, value) for name, value in fields.items()}
    return StreamEntry(message_id, read, generation)


def default_event(entry: StreamEntry, *, takes_org: bool = False) -> Event:
    """Read an event from the fields with the usual names.

    The payload is the JSON in `payload`, `data` or `body`, or else all other fields.
    """
    kind = entry.text(*TYPE_FIELDS)
    if kind is None:
        names = ", ".join(sorted(map(_name_to_json, entry.fields))[:20])
        raise InvalidEntryError(
            f"the entry has no field 'type'; its fields are: {names:.200}. Publish the type of the event in "
            f"the field 'type', or declare the stream with map=, a function from an entry to an Event"
        )
    return Event(
        type=kind,
        payload=_payload(entry),
        dedupe_key=entry.text(*KEY_FIELDS) or "",
        source=entry.text(*SOURCE_FIELDS),
        user=entry.text(*USER_FIELDS),
        occurred_at=_instant(entry.text(*TIME_FIELDS)),
        org=entry.text(*ORG_FIELDS) if takes_org else None,
    )


def _payload(entry: StreamEntry) -> JsonValue:
    for name in PAYLOAD_FIELDS:
        text = entry.text(name)
        if text is not None:
            try:
                return decode(text)
            except NotStorableError as error:
                raise InvalidEntryError(f"the field {name!r} is not valid JSON: {error}") from None
    known = {name.encode() for names in _NAMED for name in names}
    return StreamEntry(
        "", {name: value for name, value in entry.fields.items() if name not in known}
    ).to_json()


_NAMED: Sequence[Sequence[str]] = (TYPE_FIELDS, SOURCE_FIELDS, USER_FIELDS, KEY_FIELDS, TIME_FIELDS)


def _instant(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise InvalidEntryError(
            f"the field 'occurred_at' is {text!r:.100}; use seconds since 1970 or a date in ISO 8601 format"
        ) from None


def _text(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidEntryError(
            f"the field {name!r} is not UTF-8 text; declare the stream with map=, a function that decodes it"
        ) from None


def _name_to_json(name: bytes) -> str:
    try:
        text = name.decode()
    except UnicodeDecodeError:
        text = _BINARY_NAME
    return f"{_BINARY_NAME}{b64encode(name).decode()}" if text.startswith(_BINARY_NAME) else text


def _name_from_json(name: str) -> bytes:
    return b64decode(name.removeprefix(_BINARY_NAME)) if name.startswith(_BINARY_NAME) else name.encode()


def _value_to_json(value: bytes) -> JsonValue:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {_BINARY: b64encode(value).decode()}


def _value_from_json(name: str, value: object) -> bytes:
    match value:
        case str():
            return value.encode()
        case {"$base64": str(text)}:
            return b64decode(text)
    raise InvalidEntryError(f"the field {name!r} must be text or {{'$base64': text}}, got {value!r:.100}")
