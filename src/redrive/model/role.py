"""Roles of the members of an organization. Each role includes the permissions of the previous one."""

from __future__ import annotations

from enum import StrEnum

from redrive.errors import InvalidValueError


class Role(StrEnum):
    VIEWER = "VIEWER"
    STAFF = "STAFF"
    ADMIN = "ADMIN"
    OWNER = "OWNER"

    @classmethod
    def parse(cls, word: object) -> Role:
        """Return the role with this name or alias, ignoring case."""
        text = word.upper() if isinstance(word, str) else ""
        name = ROLE_ALIASES.get(text, text)
        if name not in cls.__members__:
            raise InvalidValueError(f"a role must be one of {', '.join(cls)}, got {word!r:.100}")
        return cls(name)

    @property
    def rank(self) -> int:
        return list(Role).index(self)


ROLE_ALIASES = {"SUPER_ADMIN": "OWNER", "ORG_ADMIN": "ADMIN"}
