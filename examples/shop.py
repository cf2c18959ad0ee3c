"""A shop: every order is reserved, charged and shipped, whatever the payment gateway does meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flaky_service import Answer, FlakyService, Request
from redrive import AsyncHttpClient, Backoff, BreakerPolicy, Context, Redrive, RetryPolicy
from redrive.policy import Exponential, Proportional
from redrive.policy.ramp import Ramp

PATIENT = RetryPolicy(
    name="patient",
    max_attempts=5,
    backoff=Backoff(Exponential(base=0.5, factor=2.0), cap=8.0, jitter=Proportional(0.25)),
)
CAUTIOUS = BreakerPolicy(cool_down=2.0, successes_to_close=2)


@dataclass(frozen=True)
class Order:
    number: int
    cents: int
    card: str
    shelf: str = ""
    receipt: str = ""


class Gateway(FlakyService):
    """Takes money: once for each idempotency key, however often it is asked. Refuses one card for ever."""

    EXPIRED = "4000 0000 0000 0069"

    def __init__(self) -> None:
        super().__init__()
        self.charged: set[str] = set()

    def answer(self, request: Request) -> Answer:
        status, headers = super().answer(request)
        if status == 200 and request.path == "/charges":
            if request.body["card"] == self.EXPIRED:
                return 402, {}
            self.charged.add(request.key)
        return status, headers


class Warehouse:
    """Knows the aisle of every shelf, unless somebody has given it a wrong floor plan."""

    def __init__(self) -> None:
        self.missing: frozenset[str] = frozenset()

    def aisle(self, shelf: str) -> str:
        aisle, _, _ = shelf.partition("-")
        if aisle in self.missing:
            raise LookupError(f"shelf {shelf} is in no aisle of the floor plan")
        return aisle


def client_of(gateway: Gateway) -> AsyncHttpClient:
    """One request an attempt: the step brings its own retries and its own breaker."""
    return AsyncHttpClient(gateway.url, max_attempts=1, dependency=None)


def shop(database: str, client: AsyncHttpClient, warehouse: Warehouse) -> Redrive:
    app = Redrive(database, log=False)

    async def is_back() -> None:
        await client.request("GET", "/health")

    app.breaker("payments", CAUTIOUS, probe=is_back, ramp=Ramp(first=2, factor=2.0, every=1.0))

    @app.task
    def reserve(order: Order) -> Order:
        return replace(order, shelf=f"{order.number % 9 + 1}-{order.number:03}")

    @app.task(retry=PATIENT, timeout=2.0, breaker="payments")
    async def charge(order: Order, context: Context) -> Order:
        money = {"cents": order.cents, "card": order.card}
        await client.request("POST", "/charges", json=money, idempotency_key=context.idempotency_key)
        return replace(order, receipt=f"receipt {order.number}")

    @app.task
    def ship(order: Order) -> str:
        return f"order {order.number} has left aisle {warehouse.aisle(order.shelf)}, with {order.receipt}"

    app.workflow("checkout", [reserve, charge, ship])
    return app
