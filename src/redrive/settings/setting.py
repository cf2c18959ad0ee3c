"""One setting: its name, default and type, how a value is converted to it, and how it is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import Field, dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, get_args

from msgspec import Meta, ValidationError, convert

from redrive.errors import InvalidValueError
from redrive.settings.formats import Format

PREFIX = "REDRIVE_"

ALIASES = frozenset(
    {
        "CIRCUIT_COOLDOWN_MS",
        "CIRCUIT_FAIL_THRESHOLD",
        "CIRCUIT_WINDOW",
        "DATABASE_URL",
        "GATEWAY_TIMEOUT_MS",
        "RETRY_BASE_DELAY_MS",
        "RETRY_JITTER_MAX_MS",
        "RETRY_MAX_ATTEMPTS",
        "WORKER_CONCURRENCY",
        "WORKER_LEASE_TTL_SEC",
    }
)
"""Variables also read without the prefix. Other names, such as SCHEMA, may belong to other programs."""

OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "dlq_default_retry_policy": "dlq_default_policy",
        "dlq_retry_interval_seconds": "dlq_interval_sec",
        "dlq_retry_processor_enabled": "dlq_processor_enabled",
    }
)
"""Other names of settings, in files, variables with the prefix, and arguments."""

_NUMBERS = {
    int: "a whole number from {low:,} to {high:,}",
    float: "a number from {low:,g} to {high:,g}",
}
_HIDDEN = "***"
_PASSWORD = re.compile(r"(://[^:]*:).*@")
_MAX_SHOWN_LENGTH = 100


def declare(
    default: Any,
    meaning: str,
    form: Format | None = None,
    *,
    ge: float | None = None,
    le: float | None = None,
    none: str = "",
) -> Any:
    """Declare a field of `Settings`.

    form    the format of values, if type and bounds do not describe it
    ge, le  the bounds of a number
    none    the word for None in a file and in the environment; without it, None is not allowed
    """
    meta = Meta(description=meaning, ge=ge, le=le)
    return field(default=default, metadata={"meta": meta, "form": form, "none": none})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A field of `Settings`, as `declare()` and its annotation declare it."""

    name: str
    default: Any
    type: Any
    meta: Meta
    form: Format | None
    none: str

    @classmethod
    def declared_by(cls, field: Field[Any]) -> Setting:
        """Combine a field of `declare()` with its annotation."""
        kind: Any = field.type
        if field.metadata["none"]:
            kind, _ = get_args(kind)  # int | None
        bounded = Annotated[kind, field.metadata["meta"]]
        return cls(name=field.name, default=field.default, type=bounded, **field.metadata)

    @property
    def environment(self) -> str:
        return f"{PREFIX}{self.name.upper()}"

    @property
    def alias(self) -> str | None:
        """The variable that is used if the prefixed one is not set."""
        return self.name.upper() if self.name.upper() in ALIASES else None

    @property
    def other_names(self) -> list[str]:
        return [other for other, name in OTHER_NAMES.items() if name == self.name]

    @property
    def meaning(self) -> str:
        return str(self.meta.description)

    @property
    def bounds(self) -> str:
        """Describe what is allowed, for messages and the documentation."""
        template = self.form.allowed if self.form else _NUMBERS[self.type.__origin__]
        allowed = template.format(low=self.meta.ge, high=self.meta.le)
        return f'{allowed}, or "{self.none}"' if self.none else allowed

    @property
    def secret(self) -> bool:
        return self.form is not None and self.form.secret

    @property
    def sensitive(self) -> bool:
        return self.form is not None and self.form.sensitive

    def parse(self, text: str) -> object:
        """Convert the text of a variable or an argument to a number if the setting is one."""
        if self.type.__origin__ in (int, float, bool):
            for number in (int, float):
                with suppress(ValueError):
                    return number(text)
        return text

    def convert(self, value: object, where: str) -> Any:
        """Return the value in its canonical form; `where` names its origin in the error message."""
        if self.none and (value is None or (isinstance(value, str) and value.lower() == self.none)):
            return None
        try:
            return convert(self.form.parse(value) if self.form else value, self.type)
        except (ValueError, ValidationError):
            got = "" if self.sensitive else f", got {_redact(repr(value))[:_MAX_SHOWN_LENGTH]}"
            raise InvalidValueError(f"{where} must be {self.bounds}{got}") from None

    def mask(self, value: Any) -> Any:
        """Return the value for JSON, without secrets."""
        if value is None:
            return None
        if self.secret:
            return _HIDDEN
        if self.sensitive:
            return _redact(_PASSWORD.sub(rf"\1{_HIDDEN}@", value))
        return list(value) if isinstance(value, tuple) else value

    def represent(self, value: Any) -> str:
        """Return the value as Python source, without secrets."""
        if self.secret and value is not None:
            return _HIDDEN
        return repr(self.mask(value) if self.sensitive else value)

    def spell(self, value: Any) -> str:
        """Return the value as text for an environment variable, without secrets."""
        masked = self.mask(value)
        if masked is None:
            return self.none
        if isinstance(masked, list):
            return ", ".join(masked)
        if isinstance(masked, float) and masked.is_integer():
            masked = int(masked)
        return str(masked).lower() if isinstance(masked, bool) else str(masked)

    def as_json(self, value: Any, origin: str) -> dict[str, Any]:
        """Describe the setting, its value without secrets, and the origin of the value."""
        return {
            "name": self.name,
            "value": self.mask(value),
            "origin": origin,
            "default": self.mask(self.default),
            "allowed": self.bounds,
            "meaning": self.meaning,
            "variable": self.environment,
            "alias": self.alias,
            "secret": self.secret,
        }


def _redact(text: str) -> str:
    from redrive.policy.redact import DEFAULT_REDACTOR  # compiles its patterns, so only when needed

    return DEFAULT_REDACTOR.text(text)
