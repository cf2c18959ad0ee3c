"""Dramatiq on Redis, with its eight threads per process; failed jobs are in its dead-letter set."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import dramatiq
from bench.work.jobs import Jobs, Kind, Payload
from dramatiq.brokers.redis import RedisBroker

THREADS = 8
_LEFT = ("dramatiq:default.msgs", "dramatiq:default.DQ.msgs")


class Contender:
    def __init__(self, url: str) -> None:
        self._broker: Any = RedisBroker(url=url)
        self._jobs: Jobs | None = None
        dramatiq.set_broker(self._broker)
        self._once = self._actor("once", self._perform, max_retries=1, min_backoff=1, max_backoff=1)
        self._first = self._actor("first", self._perform, max_retries=0)
        self._second = self._actor("second", _pass_on, max_retries=0)
        self._third = self._actor("third", self._end, max_retries=0)

    async def prepare(self) -> None:
        self._broker.flush_all()

    async def enqueue_one(self, kind: Kind, payload: Payload) -> None:
        if kind is Kind.WORKFLOW:
            steps = [self._first.message(payload), self._second.message(), self._third.message()]
            dramatiq.pipeline(steps).run()
        elif kind is Kind.FAIL_ONCE:
            self._once.send(payload)
        else:
            self._first.send(payload)

    async def enqueue_many(self, kind: Kind, payloads: Sequence[Payload]) -> None:
        for payload in payloads:
            await self.enqueue_one(kind, payload)

    async def has_ended(self, kind: Kind, count: int) -> bool:
        if kind is Kind.FAIL:
            return int(self._broker.client.zcard("dramatiq:default.XQ")) == count
        return not any(self._broker.client.hlen(key) for key in _LEFT)

    def work(self, jobs: Jobs) -> None:
        self._jobs = jobs
        dramatiq.Worker(self._broker, worker_threads=THREADS).start()
        threading.Event().wait()

    def _actor(self, name: str, function: Any, **options: Any) -> Any:
        return dramatiq.actor(function, actor_name=name, **options)

    def _perform(self, payload: Payload) -> Payload:
        assert self._jobs is not None
        self._jobs.perform(payload)
        return payload

    def _end(self, payload: Payload) -> None:
        assert self._jobs is not None
        self._jobs.end()


def _pass_on(payload: Payload) -> Payload:
    return payload
