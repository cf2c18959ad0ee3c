"""Markers replace secrets: `[redacted:api_key]`, or `[redacted:api_key:3f9a1c52]` with a key.

The last part is the start of a keyed hash, which makes equal secrets of one org recognizable. Without a key
there is no hash, because the plain hash of a short secret can be reversed by trying all secrets.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from redrive.errors import InvalidValueError

MARKER = re.compile(r"\[redacted:[a-z0-9_]{1,40}(?::[0-9a-f]{8})?\]")
_HASHED = re.compile(r"(\[redacted:[a-z0-9_]{1,40}):[0-9a-f]{8}\]")
TOO_DEEP = "[redacted:too_deep]"
CYCLE = "[redacted:cycle]"
UNPRINTABLE = "[redacted:unprintable]"
UNSTABLE = "[redacted:text]"
REST = "[redacted:rest]"

_PURPOSE = b"redrive.redact"
_HASH_BYTES = 4


def without_hashes(text: str) -> str:
    """Drop the hashes from markers: texts that differ only in a secret become equal."""
    return _HASHED.sub(r"\1]", text) if "[redacted:" in text else text


class Marker:
    """Creates the markers of one org; an empty key gives markers without hashes."""

    def __init__(self, key: bytes = b"") -> None:
        if not isinstance(key, bytes):
            raise InvalidValueError("the key of a redactor must be bytes, such as key.encode()")
        self._key = blake2b(key, person=_PURPOSE).digest() if key else b""

    def __call__(self, kind: str, secret: str | bytes | float | None = None) -> str:
        if secret is None or not self._key:
            return f"[redacted:{kind}]"
        return f"[redacted:{kind}:{self._hash(secret)}]"

    def _hash(self, secret: str | bytes | float) -> str:
        content = secret if isinstance(secret, bytes) else str(secret).encode("utf-8", "surrogatepass")
        return blake2b(content, key=self._key, person=_PURPOSE, digest_size=_HASH_BYTES).hexdigest()
