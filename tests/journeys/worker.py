"""A worker in a separate process: `python -m tests.journeys.worker <module>:<function> <JSON options>`.

The function registers tasks on the application, as a user's module would. Every event of the engine is
printed as a line of JSON; the log goes to stderr.
"""

from __future__ import annotations

import json
import logging
import sys
from importlib import import_module

from redrive.app import Redrive
from redrive.model.event import Event, fields_of


def main(place: str, options: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    app = Redrive()
    module, _, function = place.partition(":")
    getattr(import_module(module), function)(app)
    app.listen(_print)
    given = json.loads(options)
    app.run_worker(**{name: tuple(each) if isinstance(each, list) else each for name, each in given.items()})


def _print(event: Event) -> None:
    print(json.dumps(fields_of(event), default=str), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
