"""Redrive with one projector that gets the events of each user in order: one reader, and order keys."""

from __future__ import annotations

from bench.streams.contenders import of_redrive


class Contender(of_redrive.Contender):
    def __init__(self, database: str, redis: str) -> None:
        super().__init__(database, redis, projects=True, ordered_by="user")
