"""The outside world: the services that Acme depends on, and their current faults.

Each service acts once per idempotency key, no matter how often it is asked. A fault affects a whole service,
or only requests about one reference, so that a drill doesn't disturb other work.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from threading import Lock
from typing import Any, NamedTuple

from redrive.demo.acme.services import SERVICES
from redrive.errors import InvalidValueError

UP = "up"
FAILING, STOPPED, SLOW, REFUSING = "failing", "stopped", "slow", "refusing"
STATES = (UP, FAILING, STOPPED, SLOW, REFUSING)
SLOW_SECONDS = 3.0
LATENCY_SECONDS = (0.01, 0.06)
MAX_FAULT_SECONDS = 3600.0
MAX_REFERENCES = 50_000

USUAL_FAULT = {
    "payments": STOPPED,
    "carrier": FAILING,
    "mail": FAILING,
    "identity": REFUSING,
    "supplier": FAILING,
    "analytics": SLOW,
}
"""How each service fails when a person breaks it on the page."""

OUTAGE_SERVICE = "payments"
FIRST_OUTAGE_SECONDS, OUTAGE_SECONDS, CALM_SECONDS = 20.0, 14.0, (60.0, 100.0)

EXPIRED_CARD = "4000 0000 0000 0069"
NO_STREET = "unknown"


class Request(NamedTuple):
    service: str
    path: str
    key: str
    token: str
    body: Mapping[str, Any]

    @property
    def reference(self) -> str:
        return str(self.body.get("reference", ""))


class WorldAnswer(NamedTuple):
    """`seconds` is how long the answer takes. Status 0 breaks the connection without an answer."""

    status: int
    body: Mapping[str, Any]
    seconds: float


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a service.

    state  how the service fails
    by     the cause: "outage", "person", "drill", "history"
    after  number of requests that still succeed first
    times  number of requests that fail before the fault ends; None: all, until it is repaired
    until  when the fault ends automatically
    """

    state: str
    by: str
    after: int = 0
    times: int | None = None
    until: float | None = None


@dataclass(slots=True)
class WorldRecord:
    """The requests about one reference, by path: actions, idempotency keys, and requests."""

    acted: Counter[str] = field(default_factory=Counter)
    keys: dict[str, set[str]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)


class World:
    def __init__(self, token: str, now: Callable[[], float] = time.monotonic) -> None:
        self.calm_until = 0.0
        self._token = token
        self._now = now
        self._lock = Lock()
        self._random = Random(11)
        self._faults: dict[str, Fault] = {}
        self._faults_about: dict[tuple[str, str], Fault] = {}
        self._known: dict[str, WorldAnswer] = {}
        self._records: dict[str, WorldRecord] = {}
        self._charged: Counter[str] = Counter()

    # Requests

    def answer(self, request: Request) -> WorldAnswer:
        with self._lock:
            seconds = self._random.uniform(*LATENCY_SECONDS)
            answer = self._fail(request) or self._act(request)
            return answer._replace(seconds=answer.seconds or seconds)

    def _fail(self, request: Request) -> WorldAnswer | None:
        self._record(request).asked[request.path] += 1
        state = self._state_for(request)
        if state == FAILING:
            return WorldAnswer(503, {"error": f"{request.service} is not available"}, 0.0)
        if state == STOPPED:
            return WorldAnswer(0, {}, 0.0)
        if state == REFUSING or request.token != self._token:
            return WorldAnswer(401, {"error": "the credential is no longer valid"}, 0.0)
        if state == SLOW:
            return self._act(request)._replace(seconds=SLOW_SECONDS)
        return None

    def _act(self, request: Request) -> WorldAnswer:
        known = self._known.get(request.key)
        if request.key and known is not None:
            return known
        answer = _serve(request)
        if answer.status == 200 and request.key:
            record = self._record(request)
            record.acted[f"{request.service}{request.path}"] += 1
            self._known[request.key] = answer
            if request.service == "payments":
                self._charged[request.reference] += 1
        return answer

    def _record(self, request: Request) -> WorldRecord:
        if len(self._records) > MAX_REFERENCES:
            self._records.clear()
        record = self._records.setdefault(request.reference, WorldRecord())
        if request.key:
            record.keys.setdefault(f"{request.service}{request.path}", set()).add(request.key)
        return record

    def _state_for(self, request: Request) -> str:
        about = (request.service, request.reference)
        fault = self._faults_about.get(about)
        if fault is None or self._is_over(fault):
            return self._state_of(request.service)
        if fault.after > 0:
            self._faults_about[about] = replace(fault, after=fault.after - 1)
            return UP
        if fault.times is not None:
            self._faults_about[about] = replace(fault, times=fault.times - 1)
        return fault.state

    def _state_of(self, service: str) -> str:
        fault = self._faults.get(service)
        return UP if fault is None or self._is_over(fault) else fault.state

    def _is_over(self, fault: Fault) -> bool:
        return fault.times == 0 or (fault.until is not None and fault.until <= self._now())

    # Faults

    def break_(
        self,
        service: str,
        state: str | None = None,
        *,
        by: str,
        about: str = "",
        after: int = 0,
        times: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Break a service, or only requests `about` one reference, for `seconds` or until `repair`."""
        _require_service(service)
        state = USUAL_FAULT[service] if state is None else state
        if state not in STATES[1:]:
            raise InvalidValueError(f"unknown fault {state!r:.50}; use one of: {', '.join(STATES[1:])}")
        until = None if seconds is None else self._now() + min(seconds, MAX_FAULT_SECONDS)
        fault = Fault(state, by, after, times, until)
        with self._lock:
            if about:
                self._faults_about[service, about] = fault
            else:
                self._faults[service] = fault

    def repair(self, service: str, *, about: str = "", only_by: str | None = None) -> None:
        _require_service(service)
        with self._lock:
            if about:
                self._faults_about.pop((service, about), None)
            elif only_by is None or (service in self._faults and self._faults[service].by == only_by):
                self._faults.pop(service, None)

    def calm(self, seconds: float) -> None:
        """End a random outage in progress, and start no other for `seconds`."""
        self.calm_until = self._now() + min(seconds, MAX_FAULT_SECONDS)
        for service in SERVICES:
            self.repair(service, only_by="outage")

    @property
    def is_calm(self) -> bool:
        return self.calm_until > self._now()

    def states(self) -> dict[str, str]:
        with self._lock:
            return {service: self._state_of(service) for service in SERVICES}

    # Observations

    def seen(self, reference: str) -> dict[str, Any]:
        """Count, by path, the actions on a reference, the requests about it, and their idempotency keys."""
        with self._lock:
            record = self._records.get(reference, WorldRecord())
            keys = {path: len(keys) for path, keys in record.keys.items()}
            return {"acted": dict(record.acted), "asked": dict(record.asked), "keys": keys}

    def charges(self) -> tuple[int, int]:
        """Count the orders that were charged, and the orders that were charged more than once."""
        with self._lock:
            return len(self._charged), sum(number > 1 for number in self._charged.values())


def _require_service(service: str) -> None:
    if service not in SERVICES:
        raise InvalidValueError(f"there is no service {service!r:.50}; use one of: {', '.join(SERVICES)}")


def _serve(request: Request) -> WorldAnswer:
    """Answer as a healthy service."""
    body = request.body
    if request.service == "payments" and body.get("card", {}).get("number") == EXPIRED_CARD:
        return WorldAnswer(402, {"error": "the card has expired"}, 0.0)
    if request.service == "carrier" and body.get("to", {}).get("street") == NO_STREET:
        return WorldAnswer(422, {"error": "this street does not exist"}, 0.0)
    if request.service == "supplier":
        return WorldAnswer(200, {"products": _products(request.reference)}, 0.0)
    if request.service == "analytics":
        slow = request.reference.endswith("yearly")
        return WorldAnswer(200, {"rows": 480}, SLOW_SECONDS if slow else 0.0)
    return WorldAnswer(200, {"id": f"{request.service[:3]}_{request.reference}"}, 0.0)


def _products(reference: str) -> list[dict[str, str]]:
    odd = "1.299,00" if reference.startswith("feed-north") else "1299.00"
    return [{"sku": "SKU-1", "price": "4.90"}, {"sku": "SKU-2", "price": odd}]


async def cause_outages(world: World, random: Random) -> None:
    """Stop the payment service from time to time, unless a drill asked for calm or a person broke it."""
    await asyncio.sleep(FIRST_OUTAGE_SECONDS)
    while True:
        if not world.is_calm and world.states()[OUTAGE_SERVICE] == UP:
            world.break_(OUTAGE_SERVICE, STOPPED, by="outage", seconds=OUTAGE_SECONDS)
        await asyncio.sleep(OUTAGE_SECONDS + random.uniform(*CALM_SECONDS))
