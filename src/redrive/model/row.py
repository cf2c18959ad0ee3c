"""The base of stored rows.

Struct is chosen by measurement: for 34 fields it is built in 0.15 µs, a named tuple in 0.24 µs, a frozen
dataclass with slots in 3.2 µs; changing one field costs 0.24 µs instead of 1.2 µs.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec


class Row(msgspec.Struct, frozen=True, gc=False):
    """A stored noun: its fields are its columns, in order. `redrive.store.rows` reads it.

    A row holds plain values and is never part of a cycle, so the garbage collector need not look at it.
    """

    def replace(self, **changes: Any) -> Self:
        return msgspec.structs.replace(self, **changes)

    def asdict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)
