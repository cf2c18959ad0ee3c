"""From when on the doctor speaks up."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """
    clock_seconds           clocks that differ by more are worth a warning; by ten times as much, they are bad
    transaction_seconds     a transaction that is older
    old_transaction_seconds it is bad then
    dead_rows               so many rows that were not cleaned up, and so large a share of the table
    connections             the share of them that is taken
    leeway_seconds          so long an expired lease, or work that is due, may wait for a worker
    silent_seconds          a worker that says nothing for so long is gone; it speaks every 10 s
    backlog_seconds         work that lies ready for longer, although workers are there
    letter_seconds          a dead letter that needs somebody, and is older
    free_bytes              less than this is left on the disk; a tenth of it is bad
    log_bytes               the write-ahead log of SQLite is larger
    """

    clock_seconds: float = 2.0
    transaction_seconds: float = 60.0
    old_transaction_seconds: float = 1_800.0
    dead_rows: int = 10_000
    dead_share: float = 0.2
    connections: float = 0.8
    leeway_seconds: float = 30.0
    silent_seconds: float = 60.0
    backlog_seconds: float = 300.0
    letter_seconds: float = 86_400.0
    free_bytes: int = 1_000_000_000
    log_bytes: int = 256_000_000


DEFAULT_LIMITS = Limits()
