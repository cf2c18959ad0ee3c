"""A process of a running demo: `python -m redrive.demo worker`. The demo starts it; it ends with the demo."""

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

if TYPE_CHECKING:
    from redrive.app import Redrive

PATIENCE = 12.0


def end_with_parent() -> None:
    """Nothing is ever written into the standard input: it ends when the demo does."""

    def wait() -> None:
        while os.read(0, 1):  # not sys.stdin: Python could not end while somebody reads from that
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(PATIENCE)
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def acme() -> Redrive:
    """Out of the demo's folder, which is the working directory."""
    sys.path.insert(0, str(Path.cwd()))
    app: Redrive = import_module("acme.app").app
    return app


def work() -> None:
    acme().run_worker()


def serve() -> None:
    from redrive.demo.guide import Guide
    from redrive.demo.path import ShippingZones
    from redrive.server.serve import run

    app = acme()
    guide = Guide(app, ShippingZones(Path.cwd()), outside=os.environ["ACME_OUTSIDE"], tell=say)
    run(app, announce=say, banner=guide.banner())


def keep_database(home: str) -> None:
    from redrive.demo.postgres import keep

    keep(Path(home), say)


def say(line: str) -> None:
    """To the demo, which listens."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    logging.basicConfig(level=logging.ERROR, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    end_with_parent()
    what, *rest = sys.argv[1:]
    deeds: dict[str, Callable[..., None]] = {"worker": work, "server": serve, "database": keep_database}
    deeds[what](*rest)


if __name__ == "__main__":
    main()
