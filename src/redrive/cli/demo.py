"""`redrive demo` and `redrive drill`: a small living company, and failures staged on it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from redrive.cli.options import output_option
from redrive.cli.outcome import Ended, Exit
from redrive.cli.output import chosen, show_json, show_rows
from redrive.cli.terminal import notice, out
from redrive.errors import RedriveError

if TYPE_CHECKING:
    from redrive.demo.drills import Drill, Outcome
    from redrive.demo.folder import Running
    from redrive.demo.stage import Expectation

STORES = ("sqlite", "postgresql")
DRILL_COLUMNS = ("drill", "expectation", "met", "found")


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


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option("--list", "listed", is_flag=True, help="Only say which drills there are.")
@click.option(
    "--directory", metavar="DIR", help="The directory of the demo; by default the one started last."
)
@output_option
def drill(names: tuple[str, ...], listed: bool, directory: str | None, output: str | None) -> None:
    """Stage failures on a running demo, and check how they end.

    Start `redrive demo` in another terminal first. All drills are staged, one after the other, or those that
    are named. Each repairs what it has broken. Exits with 7 when something did not end as expected.
    """
    refuse_missing("a drill", "httpx2")
    from redrive.demo import drills
    from redrive.demo.folder import find

    wanted = drills.select(names)
    if listed:
        show_rows([{"name": drill.name, "what": drill.title} for drill in wanted], ("name", "what"), output)
        return
    form = chosen(output)
    outcomes = asyncio.run(_perform(wanted, find(directory), form))
    _show_outcomes(outcomes, form)
    if not all(outcome.passed for outcome in outcomes):
        raise Ended(Exit.FAILURES)


def refuse_missing(what: str, *packages: str) -> None:
    for package in packages:
        if find_spec(package) is None:
            raise RedriveError(f"{what} needs {package}, which is not installed: pip install 'redrive[demo]'")


def missing_path() -> str:
    """The folder of this `redrive`; empty where another terminal finds it, too.

    It does not where an environment was activated in this terminal only.
    """
    called = Path(sys.argv[0])
    own = called if called.name == "redrive" else Path(sys.executable).with_name("redrive")
    found = shutil.which("redrive")
    known = found is not None and own.exists() and Path(found).samefile(own)
    return "" if known and "VIRTUAL_ENV" not in os.environ else str(own.parent.absolute())


async def _perform(drills: list[Drill], running: Running, form: str) -> list[Outcome]:
    """Perform one drill after the other. With a table, show each expectation as soon as it is checked."""
    from redrive.demo.drills import perform

    def show(expectation: Expectation) -> None:
        if form != "table":
            return
        if expectation.met:
            out("  ", ("✓", "good"), f" {expectation.text}")
        else:
            out("  ", ("✗", "bad"), f" {expectation.text}", (f": found {expectation.found}", "bad"))

    outcomes = []
    for drill in drills:
        notice((drill.name, "bold"), f"  {drill.title}")
        outcomes.append(await perform(drill, running, lambda text: notice((f"  {text}", "dim")), show))
    return outcomes


def _show_outcomes(outcomes: list[Outcome], form: str) -> None:
    if form == "json":
        show_json(
            [
                {
                    "drill": outcome.drill.name,
                    "title": outcome.drill.title,
                    "passed": outcome.passed,
                    "expectations": [expectation._asdict() for expectation in outcome.expectations],
                }
                for outcome in outcomes
            ]
        )
    elif form != "table":
        rows = (
            {"drill": outcome.drill.name, "expectation": text, "met": met, "found": found}
            for outcome in outcomes
            for text, met, found in outcome.expectations
        )
        show_rows(rows, DRILL_COLUMNS, form)
    notice(f"{sum(outcome.passed for outcome in outcomes)} of {len(outcomes)} drills ended as expected.")
