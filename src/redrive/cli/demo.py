"""`redrive demo`: a small living company, to look at and to break."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from redrive.cli.outcome import Exit
from redrive.errors import RedriveError

STORES = ("sqlite", "postgresql")


@click.command()
@click.option(
    "--store",
    type=click.Choice(STORES),
    default="sqlite",
    show_default=True,
    help="The database: a file, or a PostgreSQL of its own.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="The port of the pages; 0 is any free one. By default 8400, or any if that is taken.",
)
@click.option(
    "--directory",
    metavar="DIR",
    help="Where its files and its SQLite database stay. By default a temporary folder, which is removed.",
)
@click.option("--open/--no-open", "browser", default=False, help="Open the pages in a browser.")
def demo(store: str, port: int | None, directory: str | None, browser: bool) -> int:
    """A small company at work, with failures to mend.

    Workers, pages, a flaky outside world, and a guided path through the first failure. Nothing of yours is
    touched: it has a database of its own. It takes 10,000 orders in about two and a half hours and then
    rests. Ctrl-C ends it and leaves nothing behind.
    """
    refuse_missing("the demo", "httpx2", "fastapi", "httptools", "jinja2", "uvicorn", "argon2")
    from redrive.demo.runner import DemoOptions, run

    found = run(DemoOptions(store, port, directory, browser, missing_path()), sys.stdout)
    return Exit.FAILURES if found is not None and (found.wrong or found.charged_twice) else Exit.OK


def refuse_missing(what: str, *packages: str) -> None:
    for each in packages:
        if find_spec(each) is None:
            raise RedriveError(f"{what} needs {each}, which is not installed: pip install 'redrive[demo]'")


def missing_path() -> str:
    """The folder of this `redrive`; empty where another terminal finds it, too.

    It does not where an environment was activated in this terminal only.
    """
    called = Path(sys.argv[0])
    own = called if called.name == "redrive" else Path(sys.executable).with_name("redrive")
    found = shutil.which("redrive")
    known = found is not None and own.exists() and Path(found).samefile(own)
    return "" if known and "VIRTUAL_ENV" not in os.environ else str(own.parent.absolute())
