"""The PostgreSQL protocol of a client: enough of it to see which statements are committed.

Parse names texts, Bind uses them, and they execute up to a Sync; BEGIN and COMMIT are plain queries.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from redrive.store.postgres_migration import quoted
from redrive.store.statement import statements

_SSL_REQUEST = 80877103


def known_texts(schema: str) -> dict[str, str]:
    """Return the name of each statement by its text, as sent to a server."""
    return {
        each.postgres.text.replace("redrive.", f"{quoted(schema)}."): name
        for module in ("runs", "leases", "records", "limits", "replays", "bulk_replays", "automatic_redrive")
        for name, each in statements(module).items()
    }


class WireProtocol:
    """The messages of a client on one connection; `committed` returns the statements just committed."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = texts
        self._rest = b""
        self._greeted = False
        self._prepared: dict[bytes, str] = {}
        self._executed: set[str] = set()
        self._in_transaction = False

    def committed(self, chunk: bytes) -> set[str]:
        self._rest += chunk
        committed: set[str] = set()
        while (message := self._next()) is not None:
            committed |= self._understood(*message)
        return committed

    def _next(self) -> tuple[bytes, bytes] | None:
        kind = self._rest[:1] if self._greeted else b""
        start = len(kind)
        if len(self._rest) < start + 4:
            return None
        [size] = struct.unpack_from("!I", self._rest, start)
        if len(self._rest) < start + size:
            return None
        body = self._rest[start + 4 : start + size]
        self._rest = self._rest[start + size :]
        return kind, body

    def _understood(self, kind: bytes, body: bytes) -> set[str]:
        if not kind:
            self._greeted = struct.unpack_from("!I", body)[0] != _SSL_REQUEST
        elif kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            self._prepared[name] = self._texts.get(text.decode(), "")
        elif kind == b"B":
            _, name, _ = body.split(b"\0", 2)
            self._executed.add(self._prepared.get(name, ""))
        elif kind == b"Q":
            return self._plain(body)
        elif kind == b"S" and not self._in_transaction:
            return self._take()
        return set()

    def _plain(self, body: bytes) -> set[str]:
        if body.startswith(b"BEGIN"):
            self._in_transaction, self._executed = True, set()
        elif body.startswith((b"COMMIT", b"ROLLBACK")):
            self._in_transaction = False
            committed = self._take()
            return committed if body.startswith(b"COMMIT") else set()
        return set()

    def _take(self) -> set[str]:
        executed, self._executed = self._executed, set()
        return executed
