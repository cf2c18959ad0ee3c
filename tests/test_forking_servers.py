"""app.sync and a queue's sync in programs that fork: gunicorn with --preload, and the prefork pool of Celery.

The program uses both before the fork, in the parent, and in the children.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.servers import HOST, PostgresServer, RedisServer, _free_port

from redrive import DeadLetterQueue, Redrive

SECONDS = 90.0

SHOP = """
import os
from redrive import DeadLetterQueue, Redrive

app = Redrive(os.environ["URL"], log=False)
queue = DeadLetterQueue(os.environ["URL"], lambda task: None, log=False).sync


@app.task
def hello(name: str) -> str:
    return name


def use(name: str) -> str:
    queue.enqueue(name, {}, error=TimeoutError("no answer"))
    return app.sync.start(hello, name, key=name).id


use("preloaded")
"""

GUNICORN = """
import os
import shop


def application(environ, start_response):
    name = environ["PATH_INFO"].strip("/")
    shop.use(name)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
"""

CELERY = """
import os
from celery import Celery
from celery.signals import task_failure
import shop

celery = Celery("work", broker=os.environ["REDIS"], backend=os.environ["REDIS"])
celery.conf.broker_connection_retry_on_startup = True


@celery.task
def use(name):
    shop.use(name)
    return os.getpid()


@celery.task
def fail(name):
    raise TimeoutError(name)


@task_failure.connect
def keep(sender, task_id, exception, args, kwargs, **_):
    task = {"name": sender.name, "args": args, "kwargs": kwargs}
    shop.queue.enqueue(task_id, task, error=exception)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/work.db"
        return
    server: PostgresServer = request.getfixturevalue("live_postgres")
    with server.new_database() as new:
        yield new


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"shop": SHOP, "web": GUNICORN, "work": CELERY}.items():
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


def stored(url: str) -> tuple[set[str | None], set[str]]:
    """Return the keys of the runs and the ids of the failed tasks."""
    app = Redrive(url, log=False)
    runs = app.sync.runs().list(size=200).runs
    keys = {app.sync.run(run.id).view().idempotency_key for run in runs if run.workflow == "hello"}
    app.sync.close()
    queue = DeadLetterQueue(url, lambda task: None, log=False).sync
    tasks = set(queue)
    queue.close()
    return keys, tasks


def eventually(holds: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        with (folder / "log").open("ab") as log:
            command = [sys.executable, "-m", *arguments]
            given = {**os.environ, **environment, "PYTHONPATH": str(folder)}
            started.append(subprocess.Popen(command, cwd=folder, env=given, stdout=log, stderr=log))
        return started[-1]

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_9_gunicorn_with_preload(
    folder: Path, url: str, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    place = f"{HOST}:{_free_port()}"
    options = ("--preload", "--workers", "2", "--bind", place, "--timeout", "30")
    process = start("gunicorn", *options, "web:application", URL=url)

    def answers() -> bool:
        try:
            return ask("first") > 0
        except OSError:
            return False

    def ask(name: str) -> int:
        with urllib.request.urlopen(f"http://{place}/{name}", timeout=30) as answer:
            return int(answer.read())

    eventually(answers, process, folder / "log")
    names = [f"order-{number}" for number in range(30)]
    children = {ask(name) for name in names}

    assert process.pid not in children
    assert stored(url) == ({"preloaded", "first", *names}, {"preloaded", "first", *names})

    process.send_signal(signal.SIGHUP)  # the parent forks new children
    eventually(lambda: ask("again") not in children, process, folder / "log")


def test_9_celery_with_its_prefork_pool(
    folder: Path, url: str, live_redis: RedisServer, start: Callable[..., subprocess.Popen[bytes]]
) -> None:
    options = ("--pool", "prefork", "--concurrency", "2", "--without-gossip", "--without-mingle")
    environment = {"URL": url, "REDIS": live_redis.url}
    process = start("celery", "--app", "work:celery", "worker", *options, **environment)
    names = [f"order-{number}" for number in range(20)]
    send = (
        f"import work; results = [work.use.delay(name) for name in {names}]; "
        f"failing = work.fail.apply_async(('lost',), task_id='failed'); "
        f"print(*{{result.get(timeout={SECONDS}) for result in results}}); "
        f"failing.get(timeout={SECONDS}, propagate=False)"
    )

    ended = subprocess.run(
        [sys.executable, "-c", send],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=2 * SECONDS,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr + (folder / "log").read_text()
    assert str(process.pid) not in ended.stdout.split()
    # Celery stores the result of a task before it sends the signal.
    eventually(lambda: "failed" in stored(url)[1], process, folder / "log")
    assert stored(url) == ({"preloaded", *names}, {"preloaded", "failed", *names})
