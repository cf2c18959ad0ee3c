"""What stored rows have in common."""

from __future__ import annotations

from typing import Annotated

BigInt = Annotated[int, "bigint"]
"""A number that PostgreSQL keeps in 64 bits; a plain `int` has 32 there."""
