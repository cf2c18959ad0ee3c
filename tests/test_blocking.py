"""app.sync: the same application for programs without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.threads import background_threads

from redrive.app import Redrive
from redrive.engine.context import Context
from redrive.engine.handle import SyncRunHandle
from redrive.errors import ConflictError, InvalidValueError, NotFoundError, RunFailedError
from redrive.settings import Settings

SECONDS = 10.0


def app_at(path: Path) -> Redrive:
    app = Redrive(f"sqlite:///{path}", log=False, durable=False, queues=["express"])

    @app.task
    async def double(number: int) -> int:
        return number * 2

    @app.task
    def bad(context: Context) -> None:
        raise ValueError("broken")

    @app.task
    async def never() -> None: ...

    return app


@contextmanager
def working(path: Path) -> Iterator[None]:
    """A worker with its own loop in its own thread, as in another process."""
    app = app_at(path)
    worker = app.worker(poll_seconds=0.02, grace_seconds=1.0)
    loops: list[asyncio.AbstractEventLoop] = []

    async def work() -> None:
        loops.append(asyncio.get_running_loop())
        async with app:
            await worker.run()

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(worker.stop)
        thread.join(SECONDS)
        assert not thread.is_alive()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Redrive]:
    app = app_at(tmp_path / "work.db")
    yield app
    app.sync.close()


def test_a_program_without_a_loop_can_start_wait_and_look(app: Redrive, tmp_path: Path) -> None:
    with working(tmp_path / "work.db"):
        run = app.sync.start("double", 4, key="k", org="acme")
        assert run.result(SECONDS) == 8
        assert run.wait(SECONDS) == run.state() == "SUCCESS"
        assert run.view().idempotency_key == "k"
        assert run.org == "acme"
        assert [each.outcome for each in run.history().attempts] == ["succeeded"]
        assert run.dead_letter() is None
        assert run.cancel() == "ended"
        assert app.sync.run(run.id, "acme").result(SECONDS) == 8
        assert repr(run) == f"<SyncRunHandle {run.id}>"
        assert app.sync.start("double", 4, key="k", org="acme").id == run.id
        many = app.sync.start_many("double", [1, 2, 3])
        assert [each.result(SECONDS) for each in many] == [2, 4, 6]
        dead = app.sync.start("bad")
        with pytest.raises(RunFailedError, match="broken"):
            dead.result(SECONDS)
        letter = dead.dead_letter()
        assert letter is not None
        assert letter.attempts == 1


def test_errors_reach_the_caller(app: Redrive) -> None:
    with pytest.raises(NotFoundError, match="did you mean 'double'"):
        app.sync.start("duoble", 4)
    with pytest.raises(InvalidValueError, match="priority"):
        app.sync.start("double", 4, priority=1000)
    with pytest.raises(InvalidValueError, match="pass keys"):
        app.sync.start_many("double", [4], key="k")
    run = app.sync.start("double", 4, key="k")
    with pytest.raises(ConflictError):
        app.sync.start("double", 5, key="k")
    with pytest.raises(TimeoutError, match=r"still pending after 0\.05 s"):
        run.result(0.05)
    for waiting in (run.wait, run.result):
        with pytest.raises(TimeoutError, match=r"still pending after 0\.05 s"):
            waiting(timedelta(milliseconds=50))
    with pytest.raises(NotFoundError):
        app.sync.run("nobody").view()
    assert run.cancel() == "cancelled"


def test_queues_can_be_paused(app: Redrive, tmp_path: Path) -> None:
    app.sync.queues(by="me").pause("express", reason="deploy")
    with working(tmp_path / "work.db"):
        run = app.sync.start("double", 1, queue="express")
        assert app.sync.start("double", 2).result(SECONDS) == 4
        assert run.state() == "PENDING"
        app.sync.queues().resume("express")
        assert run.result(SECONDS) == 2


def test_a_connection_is_refused_on_sqlite(app: Redrive) -> None:
    with pytest.raises(InvalidValueError, match="PostgreSQL"):
        app.sync.start("double", 1, connection=object())
    with pytest.raises(InvalidValueError, match="PostgreSQL"):
        app.sync.start_many("double", [1], connection=object())


async def test_inside_of_a_loop_it_is_refused(app: Redrive) -> None:
    with pytest.raises(InvalidValueError, match="would block the running event loop"):
        app.sync.start("double", 4)
    with pytest.raises(InvalidValueError, match="would block the running event loop"):
        app.sync.run("nobody").state()


def test_many_threads_share_it(app: Redrive) -> None:
    before = background_threads()
    handles: list[SyncRunHandle[Any]] = []
    errors: list[BaseException] = []

    def start(number: int) -> None:
        try:
            handles.append(app.sync.start("double", number))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not errors
    assert len({handle.id for handle in handles}) == 20
    assert len(background_threads() - before) == 1


def test_it_can_be_closed_and_used_again(app: Redrive) -> None:
    first = app.sync.start("double", 1)
    app.sync.close()
    app.sync.close()
    assert app.sync.run(first.id).state() == "PENDING"
    assert app.sync is app.sync


def test_closing_leaves_neither_a_loop_nor_a_thread_behind(app: Redrive) -> None:
    before = background_threads()
    app.sync.start("double", 1)
    loop = app.sync.loop._running_loop()
    app.sync.close()
    for thread in background_threads() - before:
        thread.join(SECONDS)
    assert background_threads() <= before
    assert loop.is_closed()


def test_the_failures_service_waits_too() -> None:
    app = Redrive("sqlite://:memory:", settings=Settings(), log=False)
    failures = app.sync.failures(by="ana")
    try:
        assert failures.list("is:open").lines == []
        assert failures.audit.verify().sound
        assert failures._target.caller.name == "ana"
        with pytest.raises(NotFoundError):
            failures.replay("no-such-letter")
    finally:
        app.sync.close()
