"""The cases: requests as sent over the wire, and their expected responses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote
from uuid import uuid4

from bench.work.jobs import Kind, payload
from bench.work.servers import HOST

QUERY = "workflow:workflow-3 is:open"
WORK = str(Kind.NOTHING)
LETTERS, RUNS, SESSION = "/api/v1/dead-letters", "/api/v1/runs", "/api/v1/session"

Next = Callable[[], bytes]


class Known(NamedTuple):
    """What a client must know: an API key, and the id of a dead letter."""

    key: str
    letter: str


class Case(NamedTuple):
    """A case. `next` returns the next request. `statuses`: any other response spoils the measurement."""

    next: Next
    statuses: frozenset[int]


def case_of(name: str, known: Known) -> Case:
    authorization = f"Authorization: Bearer {known.key}"
    addresses = {
        "list": LETTERS,
        "list by a query": f"{LETTERS}?q={quote(QUERY)}",
        "read one": f"{LETTERS}/{known.letter}",
        "who am I": SESSION,
    }
    if name in addresses:
        return Case(_same(_request("GET", addresses[name], authorization)), frozenset({200}))
    if name == "refused":  # a rate limit rejects strangers that ask too often
        return Case(_same(_request("GET", SESSION)), frozenset({401, 429}))
    if name == "start":
        return Case(_same(_start(authorization)), frozenset({202}))
    return Case(_keyed(authorization), frozenset({202}))


def _start(*headers: str) -> bytes:
    body = json.dumps({"work": WORK, "payload": payload(7)}).encode()
    return _request("POST", RUNS, "Content-Type: application/json", *headers, body=body)


def _keyed(authorization: str) -> Next:
    """Return requests with different keys of the same length."""
    mark = uuid4().hex
    text, place = _start(authorization, f'Idempotency-Key: "{mark}"'), mark.encode()
    return lambda: text.replace(place, uuid4().hex.encode())


def _same(request: bytes) -> Next:
    return lambda: request


def _request(method: str, address: str, *headers: str, body: bytes = b"") -> bytes:
    length = [f"Content-Length: {len(body)}"] if body else []
    lines = [f"{method} {address} HTTP/1.1", f"Host: {HOST}", "Accept: application/json", *headers, *length]
    return "\r\n".join([*lines, "", ""]).encode() + body
