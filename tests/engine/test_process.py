from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest
from tests.engine import process_tasks as tasks
from tests.engine.process_work import RESULTS, executed

from redrive.clock import SYSTEM_CLOCK
from redrive.engine.evidence import evidence_of
from redrive.engine.process import (
    RemoteDeferredError,
    RemoteError,
    importable,
)
from redrive.engine.task import AnyTask
from redrive.errors import AttemptTimeoutError, DeferredError, InvalidValueError, ProcessDiedError
from redrive.model.failure import Category, ErrorClass
from redrive.policy.classify import classify
from redrive.policy.redact import DEFAULT_REDACTOR

ROOT = str(Path(__file__).parents[2])


@pytest.fixture(autouse=True)
def _found_by_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)  # the child would import pytest


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    children, files = set(active_children()), _open_files()  # they may include a server for tests of pages
    yield
    assert set(active_children()) <= children
    gc.collect()
    assert _open_files() - files <= 1  # the first process opens a pipe to multiprocessing's resource tracker


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0


async def failure_of(task: AnyTask, payload: object = None, **options: Any) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        await executed(task, payload, **options)
    return caught.value


async def death_of(task: AnyTask, payload: object = None) -> str:
    with pytest.raises(ProcessDiedError) as caught:
        await executed(task, payload)
    failure = classify(caught.value)
    assert failure.error_class is ErrorClass.RETRYABLE
    assert failure.may_have_executed
    return str(caught.value)


async def appears(path: Path) -> int:
    """Wait for the process id that a task writes to the file."""
    for _ in range(6_000):
        if path.exists():
            return int(path.read_text())
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} did not appear")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # The parent that inherited it may be slow to reap it.
        return sys.platform != "linux" or ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def dies(pid: int) -> bool:
    for _ in range(6_000):
        if not is_alive(pid):
            return True
        time.sleep(0.01)
    return False


# Results


async def test_a_result_comes_back() -> None:
    assert await executed(tasks.double, 21) == 42
    assert await executed(tasks.names_its_step, None) == ["run-1", "correlation-1"]


async def test_an_async_function_is_awaited() -> None:
    assert await executed(tasks.eventually, {"a": [1]}) == {"a": [1]}


async def test_the_payload_is_typed_and_the_context_is_that_of_the_attempt() -> None:
    given = await executed(tasks.described, {"cents": 5, "day": "2026-01-02"}, timeout=20.0)
    assert 15.0 < given.pop("remaining") < 20.0
    assert given.pop("process") != os.getpid()
    assert given == {
        "type": "Order",
        "day": "2026-01-02",
        "cents": 5,
        "attempt": 3,
        "key": "acme:order-7:1",
        "input": {"the": "input"},
        "results": RESULTS,
        "config": {"limit": 3},
    }


@pytest.mark.parametrize("payload", [None, ["", "é\n\x00␛ \ud800", 2**64, 1.0, [[[]]], {"a\nb": True}]])
async def test_any_json_goes_there_and_back(payload: object) -> None:
    given = await executed(tasks.echo, payload)
    assert repr(given) == repr(payload)


async def test_a_megabyte_goes_there_and_back() -> None:
    text = "x" * 1_048_000
    assert await executed(tasks.echo, text) == text


async def test_a_result_over_the_limit_is_refused() -> None:
    error = await failure_of(tasks.grow, 5_000_000)
    assert error.evidence.failure.category is Category.VALIDATION
    assert "exceed the limit" in str(error)


async def test_a_result_that_is_no_json_is_refused_with_its_place() -> None:
    error = await failure_of(tasks.give_object)
    assert error.evidence.failure.error_type == "redrive.errors.NotStorableError"
    assert "it" in str(error)


async def test_progress_is_forwarded() -> None:
    said: list[tuple[float | None, str]] = []
    await executed(tasks.tell, 3, report=lambda _, fraction, note: said.append((fraction, note)))
    assert said == [(0 / 3, "number 0"), (1 / 3, "number 1"), (2 / 3, "number 2")]


async def test_its_output_is_that_of_the_worker(capfd: pytest.CaptureFixture[str]) -> None:
    await executed(tasks.write, "hello")
    assert capfd.readouterr() == ("hello\n", "")


async def test_many_run_at_once() -> None:
    given = await asyncio.gather(*(executed(tasks.double, number) for number in range(4)))
    assert given == [0, 2, 4, 6]


async def test_it_may_start_processes_itself() -> None:
    assert await executed(tasks.pooled, None) == [1, 2]


# Errors


async def test_a_failure_is_the_one_it_would_be_in_process() -> None:
    error = await failure_of(tasks.fail, "hunter2secret")
    expected = evidence_of(
        _raised(tasks.fail.function, "hunter2secret"),
        classifier=tasks.fail.classifier,
        redactor=DEFAULT_REDACTOR,
        step="second",
        now=SYSTEM_CLOCK.now(),
    )
    assert error.evidence.failure == expected.failure
    assert error.evidence.fingerprint == expected.fingerprint
    assert error.evidence.failure.category is Category.RESOURCE
    assert type(error.evidence.failure.category) is Category
    assert "process_tasks._deeper" in error.evidence.fingerprint.reason.fields["calls"][0]
    assert "in _deeper" in error.evidence.stack
    assert "hunter2secret" not in str(error.evidence) + str(error)


def _raised(function: Callable[..., Any], *args: Any) -> BaseException:
    with pytest.raises(tasks.FullError) as caught:
        function(*args)
    here = caught.value.__traceback__
    assert here is not None
    return caught.value.with_traceback(
        here.tb_next
    )  # starting with the function: no worker has the frame of a test


async def test_a_verdict_with_its_wait_survives() -> None:
    failure = (await failure_of(tasks.fail_limited)).evidence.failure
    assert (failure.error_class, failure.retry_after) == (ErrorClass.RATE_LIMITED, 7.5)


async def test_a_payload_that_does_not_fit_is_a_failure() -> None:
    error = await failure_of(tasks.double, "many")
    assert error.evidence.failure.error_type == "redrive.errors.PayloadError"


async def test_leaving_the_program_is_a_failure_of_the_task() -> None:
    assert (await failure_of(tasks.leave)).evidence.failure.error_type == "SystemExit"


async def test_deferring_survives() -> None:
    with pytest.raises(DeferredError, match="deferred itself for 90 s") as caught:
        await executed(tasks.defer, None)
    assert caught.value.retry_after == 90
    assert isinstance(caught.value, RemoteDeferredError)
    assert caught.value.evidence.failure.retry_after == 90


async def test_completing_within_a_transaction_is_not_to_be_had() -> None:
    error = await failure_of(tasks.complete)
    assert error.evidence.failure.error_type == "redrive.errors.InvalidValueError"


# Crashes


@pytest.mark.parametrize("code", [0, 3])
async def test_an_exit_is_reported_with_its_code(code: int) -> None:
    assert f"without a result, with exit code {code}" in await death_of(tasks.exit_with, code)


async def test_a_crash_is_reported_with_its_signal() -> None:
    assert (await death_of(tasks.die_of, int(signal.SIGSEGV))).endswith("killed by SIGSEGV")


async def test_a_kill_hints_at_memory() -> None:
    assert "SIGKILL, possibly because memory ran out" in await death_of(tasks.die_of, int(signal.SIGKILL))


async def test_it_is_noticed_though_its_own_child_lives_on(tmp_path: Path) -> None:
    file = tmp_path / "heir"
    assert "exit code 3" in await death_of(tasks.die_with_heir, str(file))
    os.kill(int(file.read_text(encoding="ascii")), signal.SIGKILL)  # fails if the process has ended


async def test_a_process_that_closes_its_files_is_given_up() -> None:
    assert "SIGKILL" in await death_of(tasks.close_files)


async def test_no_process_to_be_had_is_retryable(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("multiprocessing.context.SpawnProcess.start", refuse)
    assert "could not start a process" in await death_of(tasks.nothing)


# Stopping


@pytest.mark.parametrize("task", [tasks.spin, tasks.spin_in_c, tasks.stubborn], ids=lambda task: task.name)
async def test_the_timeout_is_a_hard_one(task: AnyTask, tmp_path: Path) -> None:
    with pytest.raises(AttemptTimeoutError, match="took longer than 5 s"):
        await executed(task, str(tmp_path / "pid"), timeout=5.0)
    assert not is_alive(await appears(tmp_path / "pid"))


async def test_a_process_with_endless_output_does_not_block_the_loop() -> None:
    with pytest.raises(AttemptTimeoutError):
        await executed(tasks.tell_for_ever, None, timeout=2.0)


@pytest.mark.parametrize("task", [tasks.spin, tasks.spin_in_c, tasks.stubborn], ids=lambda task: task.name)
async def test_a_cancellation_ends_it(task: AnyTask, tmp_path: Path) -> None:
    running = asyncio.create_task(executed(task, str(tmp_path / "pid")))
    pid = await appears(tmp_path / "pid")
    assert is_alive(pid)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_alive(pid)


async def test_a_second_cancellation_ends_it_at_once(tmp_path: Path) -> None:
    running = asyncio.create_task(executed(tasks.stubborn, str(tmp_path / "pid")))
    pid = await appears(tmp_path / "pid")
    running.cancel()
    await asyncio.sleep(0.05)
    assert is_alive(pid)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not is_alive(pid)


async def test_a_cancellation_before_it_has_started_ends_it() -> None:
    others = set(active_children())
    running = asyncio.create_task(executed(tasks.double, 1))
    await asyncio.sleep(0.01)
    (pid,) = [child.pid for child in set(active_children()) - others]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert pid is not None
    assert not is_alive(pid)


@pytest.mark.parametrize("task", [tasks.tidy, tasks.tidy_async], ids=lambda task: task.name)
async def test_it_has_a_moment_to_tidy_up(task: AnyTask, tmp_path: Path) -> None:
    running = asyncio.create_task(executed(task, str(tmp_path / "pid")))
    await appears(tmp_path / "pid")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (tmp_path / "pid.tidied").exists()


async def test_processes_that_it_has_started_end_with_it(tmp_path: Path) -> None:
    running = asyncio.create_task(executed(tasks.spin_with_child, str(tmp_path / "pid")))
    await appears(tmp_path / "pid")
    grandchild = int((tmp_path / "pid.child").read_text())
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert dies(grandchild)


@pytest.mark.parametrize("name", ["spin", "spin_with_child"])
async def test_it_dies_with_its_worker(name: str, tmp_path: Path) -> None:
    worker = _worker(name, str(tmp_path / "pid"))
    pid = await appears(tmp_path / "pid")
    worker.kill()
    worker.communicate()
    assert dies(pid)
    if name == "spin_with_child":
        assert dies(int((tmp_path / "pid.child").read_text()))


# Finding the function


def _worker(name: str, argument: str) -> subprocess.Popen[str]:
    path = str(Path(__file__).parent / "process_worker.py")
    environment = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.Popen([sys.executable, path, name, argument], stdout=-1, text=True, env=environment)


def test_a_task_of_the_main_module_is_found() -> None:
    out, _ = _worker("of_main", "7").communicate(timeout=60)
    assert out == "['7', '__mp_main__']\n"


async def test_a_task_is_found_by_the_name_it_has_in_its_module() -> None:
    assert importable(tasks.renamed) == ("tests.engine.process_tasks", "renamed")
    assert await executed(tasks.renamed, 5) == 5


async def test_one_within_a_function_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"'inner'.*must be defined at the top level"):
        await executed(tasks.hidden(), 1)


async def test_a_function_that_only_the_worker_has_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks.hidden()
    monkeypatch.setattr(tasks, "made_up", task, raising=False)
    assert "'inner'" in str(await failure_of(task, 1))


async def test_a_module_that_cannot_be_imported_there_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "only_here", tasks)
    monkeypatch.setattr(tasks.double.function, "__module__", "only_here")
    error = await failure_of(tasks.double, 1)
    assert error.evidence.failure.category is Category.MISSING_CONFIG
