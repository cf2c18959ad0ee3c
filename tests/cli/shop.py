"""A shop for the tests of commands: real runs and dead letters, made by a real worker on the same database.

shop.order(7)                     reserved, charged and shipped
shop.order(8, card="declined")    fails permanently in `charge`
shop.order(9, card="slow")        fails after three attempts
shop.order(9, work="refund", card="slow")    may have been executed, so it is not retried
shop.mended = True                from now on every card works
with shop.working(): ...          a worker executes new runs while a command waits for them
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from redrive.app import Redrive
from redrive.errors import FinalError
from redrive.parts import parts_of
from redrive.policy import BreakerPolicy
from redrive.policy.backoff import Backoff
from redrive.policy.curve import Immediate
from redrive.policy.retry import RetryPolicy
from redrive.settings import Settings

if TYPE_CHECKING:
    from tests.cli.conftest import Command

SECONDS = 60.0
"""The time limit for a worker to start, in seconds."""
THRICE = RetryPolicy(name="thrice", max_attempts=3, backoff=Backoff(Immediate()))

T = TypeVar("T")


class Shop:
    """A shop whose methods return when the work is done."""

    def __init__(self) -> None:
        self.mended = False
        self.message = "the gateway gives no answer"

    def app(self) -> Redrive:
        """Open the application on the database of the settings, as commands do."""
        app = Redrive(settings=Settings.load(), log=False, durable=False)
        app.breaker("gateway", BreakerPolicy(window_seconds=None))  # a few failing orders do not open it

        @app.task
        async def reserve(order: Any) -> Any:
            return {**order, "shelf": f"A-{order['number']}"}

        @app.task(retry=THRICE, breaker="gateway")
        async def charge(order: Any) -> Any:
            self.pay(order)
            return {**order, "receipt": order["number"]}

        @app.task
        async def ship(order: Any) -> str:
            return f"order {order['number']} has left shelf {order['shelf']}"

        @app.task(retry=THRICE, effect="unsafe")
        async def refund(order: Any) -> str:
            self.pay(order)
            return f"order {order['number']} has its money back"

        app.workflow("checkout", [reserve, charge, ship])
        return app

    def pay(self, order: Any) -> None:
        if self.mended or order["card"] == "good":
            return
        if order["card"] == "declined":
            raise FinalError(f"the card of order {order['number']} was declined")
        raise TimeoutError(self.message)

    def order(
        self,
        number: int = 1,
        *,
        card: str = "good",
        work: str = "checkout",
        wait: bool = True,
        **options: Any,
    ) -> str:
        """Start a run and return its id; without `wait`, no worker executes it."""

        async def ordered(app: Redrive) -> str:
            order = {"number": number, "card": card, "password": "hunter2-of-the-shop"}
            run = await app.start(work, order, **options)
            if wait:
                await parts_of(app).worker_in_test().work_off()
            return run.id

        return self._done(ordered)

    def dead_letter(self, number: int = 1, *, card: str = "declined", **options: Any) -> str:
        """Create a dead letter and return its id."""
        run_id = self.order(number, card=card, **options)

        async def found(app: Redrive) -> str:
            letter = await app.run(run_id, options.get("org", "default")).dead_letter()
            assert letter is not None
            return letter.id

        return self._done(found)

    def work(self) -> int:
        """Execute all ready work and return the number of attempts."""
        return self._done(lambda app: parts_of(app).worker_in_test().work_off())

    def key(self, role: str, org: str = "default") -> str:
        """Create an API key and return its text."""

        async def made(app: Redrive) -> str:
            members = app.members(org=org)
            return (await members.keys.create(f"{role} {parts_of(app).ids.new()}", role)).text

        return self._done(made)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Run a worker in a thread."""
        started = threading.Event()
        stop: Callable[[], object] = started.set

        async def work() -> None:
            nonlocal stop
            async with self.app() as app:
                worker, loop = app.worker(), asyncio.get_running_loop()
                stop = lambda: loop.call_soon_threadsafe(worker.stop)  # noqa: E731
                started.set()
                await worker.run()

        thread = threading.Thread(target=lambda: asyncio.run(work()))
        thread.start()
        try:
            assert started.wait(SECONDS)
            yield
        finally:
            stop()
            thread.join()

    def _done(self, what: Callable[[Redrive], Awaitable[T]]) -> T:
        async def do() -> T:
            async with self.app() as app:
                return await what(app)

        return asyncio.run(do())


@pytest.fixture
def shop(redrive: Command) -> Shop:
    """A shop on the database that the commands of the test use."""
    return Shop()
