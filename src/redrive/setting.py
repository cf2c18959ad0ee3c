"""A setting: its name, what is allowed, and how it is read from text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from redrive.addresses import Address, Url
from redrive.errors import InvalidValueError
from redrive.setting_kinds import Choice, Flag, Keys, Kind, Number, Secret, Share, Whole

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
"""The variables that are read without the prefix too. Others, such as SCHEMA, may be meant for anybody."""

_PASSWORD = re.compile(r"(://[^:]*:).*@")
_MAX_SHOWN_LENGTH = 100

_WORDED = (Whole, Number, Share, Flag, Choice)
"""Of these kinds, a number may be meant by what a variable says."""

_UNTOLD = (Address, Url, Keys, Secret)
"""A value of these kinds that is wrong is not known well enough to find the password in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What there is to know about one setting.

    without  the word that stands for None in a file and in the environment; empty: None is not allowed
    """

    name: str
    default: Any
    kind: Kind
    meaning: str
    without: str

    @property
    def environment(self) -> str:
        return f"{PREFIX}{self.name.upper()}"

    @property
    def alias(self) -> str | None:
        """Another variable, which counts when the first one is not set."""
        return self.name.upper() if self.name.upper() in ALIASES else None

    @property
    def bounds(self) -> str:
        return f'{self.kind.bounds}, or "{self.without}"' if self.without else self.kind.bounds

    @property
    def secret(self) -> bool:
        return isinstance(self.kind, Keys | Secret)

    def text_in(self, environment: Mapping[str, str]) -> tuple[str, str] | None:
        """The variable that holds it, and what that says."""
        for variable in filter(None, (self.environment, self.alias)):
            if text := environment.get(variable, "").strip():
                return variable, text
        return None

    def parsed(self, text: str) -> object:
        """What a variable says; what is no number stays as it is."""
        return _number(text) if isinstance(self.kind, _WORDED) else text

    def checked(self, value: object, where: str) -> Any:
        if self.without and (value is None or (isinstance(value, str) and value.lower() == self.without)):
            return None
        try:
            return self.kind.accept(value)
        except ValueError:
            raise InvalidValueError(f"{where} must be {self.bounds}{self._got(value)}") from None

    def shown(self, value: object) -> str:
        """As in code, without secrets."""
        if self.secret and value is not None:
            return "***"
        return repr(self.masked(value) if isinstance(self.kind, Address) else value)

    def masked(self, value: Any) -> Any:
        """The value without secrets, as JSON has it."""
        if value is None:
            return None
        if self.secret:
            return "***"
        if isinstance(self.kind, Address):
            return _redacted(_PASSWORD.sub(r"\1***@", str(value)))
        return list(value) if isinstance(value, tuple) else value

    def as_json(self, value: Any, origin: str) -> dict[str, Any]:
        """Its value, where that comes from, and what is allowed; secrets masked."""
        return {
            "name": self.name,
            "value": self.masked(value),
            "origin": origin,
            "default": self.masked(self.default),
            "allowed": self.bounds,
            "meaning": self.meaning,
            "variable": self.environment,
            "alias": self.alias,
            "secret": self.secret,
        }

    def spelled(self, value: Any) -> str:
        """The value without secrets, as a person writes it into the environment."""
        shown = self.masked(value)
        if shown is None:
            return self.without
        if isinstance(shown, list):
            return ", ".join(shown)
        return str(shown).lower() if isinstance(shown, bool) else str(shown)

    def _got(self, value: object) -> str:
        return "" if isinstance(self.kind, _UNTOLD) else f", got {_redacted(repr(value))[:_MAX_SHOWN_LENGTH]}"


def _number(text: str) -> object:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _redacted(text: str) -> str:
    from redrive.policy.redact import DEFAULT_REDACTOR  # compiles its patterns, so only when needed

    return DEFAULT_REDACTOR.text(text)
