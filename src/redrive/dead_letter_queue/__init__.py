"""The dead-letter queue of whatever a team already runs: only this, without the rest of Redrive (M2)."""

from __future__ import annotations

from redrive.dead_letter_queue.queue import DeadLetterQueue

__all__ = ["DeadLetterQueue"]
