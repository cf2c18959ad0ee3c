"""The stand-alone dead-letter queue: keeps failed tasks of any job system, without the rest of Redrive."""

from __future__ import annotations

from redrive.dead_letter_queue.queue import DeadLetterQueue

__all__ = ["DeadLetterQueue"]
