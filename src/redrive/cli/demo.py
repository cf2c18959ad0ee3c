"""`redrive demo` and `redrive drill`: run a demo company, and stage failures on it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from redrive.cli.options import NumberParam, output_option
from redrive.cli.outcome import CommandExit, Exit
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
    help="Database: a SQLite file, or a temporary PostgreSQL server.",
)
@click.option(
    "--port",
    type=NumberParam(0, 65_535),
    metavar="PORT",
    help="Port of the admin pages; 0 picks a free one. Default: 8400, or a free one if it is taken.",
)
@click.option(
    "--directory",
    metavar="DIR",
    help="Keep the files and the SQLite database here. Default: a temporary directory, removed at the end.",
)
@click.option("--open/--no-open", "browser", default=False, help="Open the admin pages in a browser.")
def demo(store: str, port: int | None, directory: str | None, browser: bool) -> int:
    """Run a demo company with failures to fix and replay.

    The demo has workers, admin pages and unreliable external services. A guide leads you from the first
    failure to its replay. The demo uses its own database and doesn't touch your data. It receives 10,000
    orders in about two and a half hours. Ctrl-C stops it and removes its files, unless you pass --directory.
    """
    require_packages("the demo", "httpx2", "fastapi", "httptools", "jinja2", "uvicorn", "argon2")
    from redrive.demo.runner import DemoOptions, run

    found = run(DemoOptions(store, port, directory, browser, missing_path()), sys.stdout)
    return Exit.FAILURES if found is not None and (found.wrong or found.charged_twice) else Exit.OK


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option("--list", "listed", is_flag=True, help="List the drills and exit.")
@click.option(
    "--directory", metavar="DIR", help="Directory of the demo. Default: the demo that was started last."
)
@output_option
def drill(names: tuple[str, ...], listed: bool, directory: str | None, output: str | None) -> None:
    """Stage failures on a running demo, and check how they end.

    Start `redrive demo` in another terminal first. Without names, all drills run one after the other. Each
    drill repairs what it breaks. Exits with 7 if a drill does not end as expected.
    """
    require_packages("a drill", "httpx2")
    from redrive.demo import drills
    from redrive.demo.folder import find

    wanted = drills.select(names)
    if listed:
        show_rows([{"name": drill.name, "what": drill.title} for drill in wanted], ("name", "what"), output)
        return
    form = chosen(output)
    running = find(directory)
    chosen_drills = wanted if names else drills.playable(wanted, running)
    outcomes = asyncio.run(_perform(chosen_drills, running, form))
    _show_outcomes(outcomes, form)
    if not all(outcome.passed for outcome in outcomes):
        raise CommandExit(Exit.FAILURES)


def require_packages(what: str, *packages: str) -> None:
    for package in packages:
        if find_spec(package) is None:
            raise RedriveError(f"{what} needs {package}, which is not installed: pip install 'redrive[demo]'")


def missing_path() -> str:
    """Return the directory of this `redrive`, or "" if another terminal finds it too.

    Another terminal doesn't find it if it is in an environment that was activated in this terminal only.
    """
    called = Path(sys.argv[0])
    own = called if called.name == "redrive" else Path(sys.executable).with_name("redrive")
    found = shutil.which("redrive")
    known = found is not None and own.exists() and Path(found).samefile(own)
    return "" if known and "VIRTUAL_ENV" not in os.environ else str(own.parent.absolute())


async def _perform(drills: list[Drill], running: Running, form: str) -> list[Outcome]:
    """Run one drill after the other. In a table, show each expectation as soon as it is checked."""
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
