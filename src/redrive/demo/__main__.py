"""Run one process of a demo, such as `python -m redrive.demo worker`. It stops when the demo stops."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from redrive.settings import Settings

if TYPE_CHECKING:
    from redrive.app import Redrive

GRACE_SECONDS = 12.0


def stop_with_parent() -> None:
    """Stop this process when its standard input closes, that is, when the demo ends for any reason."""

    def wait() -> None:
        while os.read(0, 1):  # not sys.stdin: Python can't exit while a thread reads from it
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def load_acme() -> Redrive:
    """Import Acme's code from the working directory, which is the demo's folder."""
    folder = Path.cwd()
    sys.path.insert(0, str(folder))
    services = import_module("acme.services").Services.from_environment()
    acme = import_module("acme.app")
    events = os.environ.get(acme.EVENTS, "")
    app: Redrive = acme.create_app(Settings.load(), services, folder, log=True, events=events)
    return app


def work() -> None:
    from redrive.parts import parts_of
    from redrive.streams.serve import run_worker_with_streams

    app = load_acme()
    if parts_of(app).declared.streams:
        run_worker_with_streams(app)
    else:
        app.run_worker()


def serve() -> None:
    from redrive.demo.acme.services import URL
    from redrive.demo.folder import ShippingZones
    from redrive.demo.guide import Guide
    from redrive.server.serve import run

    app = load_acme()
    guide = Guide(app, ShippingZones(Path.cwd()), world_url=os.environ[URL], report=report)
    run(app, announce=report, banner=guide.banner())


def run_database(home: str) -> None:
    from redrive.demo.postgres import run_until_stopped

    run_until_stopped(Path(home), report)


def run_redis(file: str) -> None:
    from redrive.demo.redis_server import run_until_stopped

    run_until_stopped(Path(file), report)


def report(line: str) -> None:
    """Send a line to the demo, which reads this process's standard output."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    stop_with_parent()
    role, *arguments = sys.argv[1:]
    roles: dict[str, Callable[..., None]] = {
        "worker": work,
        "server": serve,
        "database": run_database,
        "redis": run_redis,
    }
    roles[role](*arguments)


if __name__ == "__main__":
    main()
