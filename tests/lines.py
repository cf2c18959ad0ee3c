"""Lines that a logger received during a test."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def fields(self) -> list[dict[str, Any]]:
        return [record.fields for record in self.records]  # type: ignore[attr-defined]

    @property
    def names(self) -> list[tuple[str, int]]:
        return [(record.getMessage().split(" ", 1)[0], record.levelno) for record in self.records]

    @property
    def text(self) -> str:
        return "\n".join(record.getMessage() for record in self.records)


@contextmanager
def written_to(logger: logging.Logger, level: int) -> Iterator[Lines]:
    """Record every line of this level and above."""
    handler = Lines()
    logger.addHandler(handler)
    logger.setLevel(level)
    yield handler
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(handler)
