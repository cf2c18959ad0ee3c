"""Redrive with one projector: the consumer stores a run with each event, and workers execute it."""

from __future__ import annotations

from bench.streams.contenders import of_redrive


class Contender(of_redrive.Contender):
    def __init__(self, database: str, redis: str) -> None:
        super().__init__(database, redis, projects=True)
