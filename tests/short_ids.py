"""Lets tests give runs short ids on PostgreSQL, as on SQLite: `run 1` is easier to read than 32 digits.

The column is a `uuid`. A text of up to 16 bytes is stored directly, followed by zeros, so that ids sort like
their texts. This process remembers the texts.
"""

from __future__ import annotations

from hashlib import sha256

from redrive.store import postgres_connections
from redrive.store.postgres_types import id_bytes, id_text

_SIZE = 16
_texts: dict[bytes, str] = {}


def allow_short_ids() -> None:
    """Allow short ids on all of Redrive's connections that this process opens from now on."""
    postgres_connections.id_bytes = short_id_bytes  # type: ignore[attr-defined]
    postgres_connections.id_text = _short_id_text  # type: ignore[attr-defined, assignment]


def short_id_bytes(text: str) -> bytes:
    value = id_bytes(text)
    if text.strip("0") and not any(value):
        short = text.encode()
        value = short.ljust(_SIZE, b"\0") if len(short) <= _SIZE else short[:8] + sha256(short).digest()[:8]
        _texts[value] = text
    return value


def _short_id_text(value: bytes) -> str:
    return _texts.get(value) or id_text(value)
