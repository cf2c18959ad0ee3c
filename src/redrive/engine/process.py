"""Executes an attempt in a separate process, which can always be killed and cannot crash the worker.

The child is spawned, finds the task by module and name, and reports that it is ready. It then receives the
claim and responds with any number of progress notes and one result or failure. Both sides exchange JSON over
a pair of sockets; a message consists of its length in four bytes, a line with its kind, and the text.

The child leads its own process group, with all processes that it starts. A Ctrl-C in the terminal does not
reach it; the worker kills the whole group, and so does the kernel if the worker itself is killed. POSIX only.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from multiprocessing import current_process, get_context, parent_process
from multiprocessing.context import SpawnProcess
from socket import socket, socketpair
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from redrive.callables import bounded
from redrive.calls.running_step import enter_step
from redrive.clock import SYSTEM_CLOCK
from redrive.engine.context import Context
from redrive.engine.definition import StepDefinition
from redrive.engine.evidence import Evidence, evidence_of
from redrive.engine.payload import from_json, to_json
from redrive.engine.task import AnyTask, Task
from redrive.errors import DeferredError, InvalidValueError, ProcessDiedError, RedriveError
from redrive.model.claim import Claim
from redrive.policy.codec import JsonLimits, decode, encode
from redrive.policy.redact import DEFAULT_REDACTOR
from redrive.store.rows import columns_of, read_row

if TYPE_CHECKING:
    from redrive.engine.work import Work  # brings the store along, which the child does without

GRACE_SECONDS: Final = 1.0
"""How long a child may take to exit after it has responded or was asked to stop."""

_POLL_SECONDS = 0.002
_SIZE_BYTES = 4
_MAX_ANSWER_BYTES = 16_777_216
_ROOMY = JsonLimits(size=268_435_456, depth=100, items=10_000_000)
_READY, _PROGRESS, _RESULT, _FAILURE = "ready", "progress", "result", "failure"


class RemoteError(RedriveError):
    """The task raised an exception in its process; `evidence` was collected there."""

    def __init__(self, evidence: Evidence) -> None:
        Exception.__init__(self, evidence.failure.message)
        self.evidence = evidence


class RemoteDeferredError(RemoteError, DeferredError):
    """The task deferred itself in its process."""

    def __init__(self, evidence: Evidence, *, retry_after: float) -> None:
        RemoteError.__init__(self, evidence)
        self.retry_after = retry_after


async def run_in_process(task: AnyTask, work: Work, context: Context) -> Any:
    """Call the function in a child process and return its result, as decoded from JSON."""
    child = _Child.start(task, context.step)
    work.kill = child.kill
    try:
        answer = await bounded(_answer(child, work, context), context)
    except BaseException:
        child.terminate()
        raise
    finally:
        work.kill = None
        await child.end()
    if answer is None:
        raise ProcessDiedError(f"the process of task {task.name!r} {child.ending()}")
    return _result(*answer)


def importable(task: AnyTask) -> tuple[str, str]:
    """Return the module and name by which another process can find the task, or raise InvalidValueError."""
    module = getattr(task.function, "__module__", None)
    known = vars(sys.modules[module]) if module in sys.modules else {}
    name = next((name for name, value in known.items() if value is task), None)
    return _reject(task.name) if name is None else (str(module), name)


def _reject(task: str) -> NoReturn:
    raise InvalidValueError(
        f"the task {task!r} cannot be found in a separate process; a task with "
        'isolation="process" must be defined at the top level of an importable module'
    )


# In the worker


_Message = tuple[str, Any]


class _Child:
    def __init__(self, process: SpawnProcess, connection: socket) -> None:
        self._process = process
        self._connection = connection
        self._group = cast("int", process.pid)
        self._exit_code: int | None = None
        self.is_ready = False

    @classmethod
    def start(cls, task: AnyTask, step: str) -> _Child:
        place = importable(task)
        ours, theirs = socketpair()
        ours.setblocking(False)
        with theirs:
            return cls(_start_process(ours, (theirs, *place, task.name, step)), ours)

    async def send(self, kind: str, text: str) -> None:
        with suppress(ConnectionError):  # messages that the child sent before it exited can still be read
            await asyncio.get_running_loop().sock_sendall(self._connection, _pack(kind, text))

    async def receive(self) -> _Message | None:
        """Return the next message, or None if the child has closed the connection."""
        try:
            size = int.from_bytes(await self._read(_SIZE_BYTES))
            if size > _MAX_ANSWER_BYTES:
                return None
            kind, _, text = (await self._read(size)).decode().partition("\n")
        except (EOFError, ConnectionError):
            return None
        return kind, decode(text)

    async def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            count = await asyncio.get_running_loop().sock_recv_into(self._connection, rest)
            if count == 0:
                raise EOFError
            rest = rest[count:]
        return data

    def terminate(self) -> None:
        self._process.terminate()

    async def end(self) -> None:
        """Wait a moment for the child to exit, then kill the rest of its process group."""
        self._connection.close()
        try:
            await self._wait()
        finally:
            self.kill()
            await self._wait()
            self._release()

    async def _wait(self) -> None:
        """Poll the exit code: neither a closed nor an open socket shows whether the child has exited."""
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                while self._process.exitcode is None:  # noqa: ASYNC110 — there is no event to wait for
                    await asyncio.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """Kill the child and all processes of its group. The renewal thread may call this."""
        self._process.kill()
        with suppress(OSError):
            os.killpg(self._group, signal.SIGKILL)

    def _release(self) -> None:
        self._exit_code = self._process.exitcode
        if self._exit_code is not None:
            self._process.join()
            self._process.close()

    def ending(self) -> str:
        hint = "" if self.is_ready else f" before it started the task{_MAIN_HINT}"
        return f"exited without a result, {_exit_text(self._exit_code)}{hint}"


_MAIN_HINT = (
    "; see its error output. The child imports the main module again: "
    'put the code that starts the program under `if __name__ == "__main__":`'
)


def _start_process(ours: socket, arguments: tuple[Any, ...]) -> SpawnProcess:
    process = get_context("spawn").Process(target=_main, args=arguments, daemon=True)
    try:
        process.start()
    except OSError as error:
        ours.close()
        raise ProcessDiedError(f"the operating system could not start a process: {error}") from error
    return process


def _exit_text(exit_code: int | None) -> str:
    if exit_code is None:
        return "with an unknown exit code"
    if exit_code >= 0:
        return f"with exit code {exit_code}"
    known = {number.value: number.name for number in signal.Signals}
    memory = ", possibly because memory ran out" if exit_code == -signal.SIGKILL else ""
    return f"killed by {known.get(-exit_code, f'signal {-exit_code}')}{memory}"


async def _answer(child: _Child, work: Work, context: Context) -> _Message | None:
    while (message := await child.receive()) is not None:
        kind, value = message
        if kind == _READY:
            child.is_ready = True
            await child.send(_READY, _job(work, context))
        elif kind == _PROGRESS:
            context.progress(*value)
            await asyncio.sleep(0)  # a child that sends messages all the time must not block the loop
        else:
            return message
    return None


def _job(work: Work, context: Context) -> str:
    job = [columns_of(work.opened), work.step.to_json(), work.outputs or {}, context.remaining()]
    return encode(job, limits=_ROOMY)


def _result(kind: str, value: Any) -> Any:
    if kind == _RESULT:
        return value
    evidence = from_json(value["evidence"], Evidence)
    if value["retry_after"] is None:
        raise RemoteError(evidence)
    raise RemoteDeferredError(evidence, retry_after=value["retry_after"])


def _pack(kind: str, text: str) -> bytes:
    data = f"{kind}\n{text}".encode()
    return len(data).to_bytes(_SIZE_BYTES) + data


# In the child


class _Line:
    """The connection to the worker. Messages are dropped once the worker no longer listens."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._lock = Lock()

    def send(self, kind: str, text: str) -> None:
        with self._lock, suppress(OSError):
            self._connection.sendall(_pack(kind, text))

    def receive(self) -> Any:
        with self._connection.makefile("rb") as file:
            size = int.from_bytes(file.read(_SIZE_BYTES))
            return decode(file.read(size).decode().partition("\n")[2])

    def report(self, _context: Context, fraction: float | None, note: str) -> None:
        self.send(_PROGRESS, encode([None if fraction is None else float(fraction), str(note)]))


def _main(connection: socket, module: str, name: str, task_name: str, step: str) -> None:
    _set_up(connection)
    line = _Line(connection)
    task: AnyTask | None = None
    try:
        task = _load_task(module, name, task_name)
        line.send(_READY, "null")
        line.send(_RESULT, encode(to_json(_execute(task, line))))
    except BaseException as error:  # noqa: BLE001 — the worker handles it
        line.send(_FAILURE, _failure(error, task, step))


def _set_up(connection: socket) -> None:
    os.setsid()
    connection.set_inheritable(False)
    os.register_at_fork(after_in_child=connection.close)
    signal.signal(signal.SIGTERM, _stop)
    current_process().daemon = False  # a daemon process could not start child processes
    _die_with_parent()


def _stop(_number: int, _frame: object) -> NoReturn:
    sys.exit("stopped by the worker")


def _die_with_parent() -> None:
    """Let the kernel send SIGIO to the process group when the parent's end of a pipe is closed.

    A thread that waits for this could not act while C code holds the interpreter lock, and Linux's
    PR_SET_PDEATHSIG kills only the child itself.
    """
    from fcntl import F_GETFL, F_SETFL, F_SETOWN, fcntl  # not on Windows, where the rest can be imported

    parent: Any = parent_process()
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl(parent.sentinel, F_SETOWN, -os.getpgrp())
    fcntl(parent.sentinel, F_SETFL, fcntl(parent.sentinel, F_GETFL) | os.O_ASYNC)
    if not parent.is_alive():
        os._exit(1)


def _load_task(module: str, name: str, task_name: str) -> AnyTask:
    task = getattr(import_module(module), name, None)
    return task if isinstance(task, Task) else _reject(task_name)


def _execute(task: AnyTask, line: _Line) -> Any:
    claimed, defined, outputs, seconds = line.receive()
    claim = read_row(Claim, claimed)
    step = replace(StepDefinition.from_json(defined), timeout=seconds)
    context = Context(claim, step, SYSTEM_CLOCK, outputs=outputs, report=line.report)
    enter_step(context)
    args, kwargs = task.signature.arguments(claim.payload, context, step.config_text)
    result = task.function(*args, **kwargs)
    return asyncio.run(_await(result)) if isinstance(result, Awaitable) else result


async def _await(result: Awaitable[Any]) -> Any:
    return await result


def _failure(error: BaseException, task: AnyTask | None, step: str) -> str:
    evidence = evidence_of(
        error,
        classifier=None if task is None else task.classifier,
        redactor=DEFAULT_REDACTOR,
        step=step,
        now=SYSTEM_CLOCK.now(),
    )
    retry_after = error.retry_after if isinstance(error, DeferredError) else None
    return encode({"evidence": to_json(evidence), "retry_after": retry_after})
