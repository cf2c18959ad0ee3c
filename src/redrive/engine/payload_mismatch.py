"""The fields that a task expects, compared with those of a payload that it could not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from redrive.errors import PayloadError
from redrive.model.failure import PayloadMismatch
from redrive.policy.redact import Redactor

MAX_NAMES, MAX_NAME_LENGTH = 50, 60


def payload_error(message: str, value: object, annotation: Any) -> PayloadError:
    """Return the error for a value that does not match its annotation, with the names of both."""
    return PayloadError(message, mismatch=_mismatch(value, _fields_of(annotation)))


def redacted(mismatch: PayloadMismatch, redactor: Redactor) -> PayloadMismatch:
    """Redact the names that come from the payload: its keys can be data of a customer."""
    given, unknown = (tuple(map(redactor.text, names)) for names in (mismatch.given, mismatch.unknown))
    return PayloadMismatch(mismatch.expected, given, mismatch.missing, unknown)


def _mismatch(value: object, fields: Mapping[str, bool]) -> PayloadMismatch | None:
    """Compare the keys of a payload with the fields, each with whether it is required."""
    if not fields:
        return None
    keys = {str(key)[:MAX_NAME_LENGTH]: True for key in value} if isinstance(value, dict) else {}
    return PayloadMismatch(
        expected=_names(fields),
        given=_names(keys),
        missing=_names(name for name, required in fields.items() if required and name not in keys),
        unknown=_names(key for key in keys if key not in fields),
    )


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)[:MAX_NAMES]


def _fields_of(annotation: Any) -> Mapping[str, bool]:
    """Return the fields of the only class that an annotation allows; none if it allows several."""
    from msgspec.inspect import type_info  # slow to import, and only needed after an error

    try:
        info: Any = type_info(annotation)
    except Exception:  # noqa: BLE001 — evaluating annotations can raise anything
        return {}
    members = [_members_of(member) for member in getattr(info, "types", (info,))]
    found = [fields for fields in members if fields]
    return found[0] if len(found) == 1 else {}


def _members_of(info: Any) -> Mapping[str, bool]:
    model_fields = getattr(getattr(info, "cls", None), "model_fields", None)
    if isinstance(model_fields, dict):  # pydantic
        return {_alias(name, field): bool(field.is_required()) for name, field in model_fields.items()}
    return {field.encode_name: field.required for field in getattr(info, "fields", ())}


def _alias(name: str, field: Any) -> str:
    alias = field.validation_alias or field.alias
    return alias if isinstance(alias, str) else name
