"""Credentials as text: the formats of keys, tokens, names and passwords, and their stored digests.

A key is `rdk_<id>_<secret>`. Secrets and tokens have 256 random bits, so storing their plain SHA-256 is safe.
Passwords have less entropy and are hashed with argon2 (`identity.passwords`).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from hashlib import sha256
from hmac import compare_digest
from typing import NamedTuple, TypeGuard
from unicodedata import normalize

from redrive.errors import InvalidValueError
from redrive.model.caller import APPLICATION, SELF
from redrive.model.identity import KEY_PREFIX
from redrive.model.role import Role
from redrive.policy.access import PERMISSIONS, Permission
from redrive.policy.bounds import require_list

SECRET_BYTES = 32
MAX_USER_LENGTH = 200
MIN_PASSWORD_LENGTH, MAX_PASSWORD_LENGTH = 12, 1024
KEY_ACTOR = "key:"

_ID = re.compile(r"[0-9a-f]{32}")
_KEY = re.compile(rf"{KEY_PREFIX}([0-9a-f]{{32}})_([A-Za-z0-9_-]{{43}})")
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


class KeyText(NamedTuple):
    id: str
    secret: str

    def __repr__(self) -> str:
        return f"KeyText({self.id!r}, '…')"

    def __str__(self) -> str:
        return f"{KEY_PREFIX}{self.id}_{self.secret}"


def secret_text(random: bytes) -> str:
    """Write random bytes as text for a header, a cookie or a URL."""
    if len(random) < SECRET_BYTES:
        raise InvalidValueError(f"a secret needs {SECRET_BYTES} random bytes, got {len(random)}")
    return urlsafe_b64encode(random).rstrip(b"=").decode()


def parse_key(text: object) -> KeyText | None:
    """Parse a key; None if the text cannot be one."""
    found = _KEY.fullmatch(text) if isinstance(text, str) else None
    return None if found is None else KeyText(*found.groups())


def is_token(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and _TOKEN.fullmatch(text) is not None


def is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def digest(secret: str) -> str:
    """Return the digest of a secret, which is stored instead of it."""
    return sha256(secret.encode()).hexdigest()


def is_secret_of(digest_of_given: str, stored: str | None) -> bool:
    return stored is not None and compare_digest(digest_of_given, stored)


def csrf_of(token: str) -> str:
    """Return the token that a page sends with every change. It is derived from the session's token."""
    return secret_text(sha256(f"redrive csrf {token}".encode()).digest())


def user_name(name: object) -> str:
    """Return the name as it is stored: in lower case and normalized. Audit entries show it."""
    text = normalize("NFKC", normalize("NFKC", name).lower()).strip() if isinstance(name, str) else ""
    if not 1 <= len(text) <= MAX_USER_LENGTH or not text.isprintable():
        raise InvalidValueError(
            f"the name of a user must have 1 to {MAX_USER_LENGTH} printable characters, got {name!r:.300}"
        )
    if text in (SELF, APPLICATION) or text.startswith(KEY_ACTOR) or is_id(text):
        raise InvalidValueError(
            f"{text!r} cannot be the name of a user: it is reserved for Redrive, programs or API keys; "
            f"choose another name"
        )
    return text


def findable_user(name: object) -> str:
    """Return the name of a user to look up; empty if no user can have it."""
    try:
        return user_name(name)
    except InvalidValueError:
        return ""


def checked_password(password: object) -> str:
    """Return the password, normalized so that every keyboard gives the same hash. No message shows it."""
    if not isinstance(password, str) or not MIN_PASSWORD_LENGTH <= len(password) <= MAX_PASSWORD_LENGTH:
        raise InvalidValueError(
            f"a password must have {MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH:,} characters; "
            "use a phrase of several words"
        )
    if any("\ud800" <= character <= "\udfff" for character in password):
        raise InvalidValueError("the password contains an incomplete Unicode character; enter it again")
    return normalize("NFKC", password)


def checked_scopes(scopes: Iterable[str] | None, role: Role) -> frozenset[Permission] | None:
    """Return the permissions that a key is limited to; its role must have them."""
    if scopes is None:
        return None
    require_list("scopes", scopes, "permissions")
    named = frozenset(_permission(scope) for scope in scopes)
    if not named:
        raise InvalidValueError("a key with no scopes has no permissions; name scopes, or omit the list")
    if strange := named - PERMISSIONS[role]:
        raise InvalidValueError(
            f"the role {role} does not have {', '.join(sorted(strange))}; it has "
            f"{', '.join(sorted(PERMISSIONS[role]))}"
        )
    return named


def _permission(scope: object) -> Permission:
    word = scope.lower() if isinstance(scope, str) else ""
    if word not in list(Permission):
        raise InvalidValueError(f"a scope must be one of {', '.join(Permission)}, got {scope!r:.100}")
    return Permission(word)
