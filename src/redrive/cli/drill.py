"""`redrive drill`: failures staged on a running demo, and whether they end as an operator expects."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from redrive.cli.demo import refuse_missing
from redrive.cli.outcome import Ended, Exit
from redrive.cli.output import chosen, output_option, show_json, show_rows
from redrive.cli.terminal import notice, out

if TYPE_CHECKING:
    from redrive.demo.drills import Drill, Outcome
    from redrive.demo.folder import Running
    from redrive.demo.stage import Expectation

COLUMNS = ("drill", "expectation", "met", "found")


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
        show_rows([{"name": each.name, "what": each.title} for each in wanted], ("name", "what"), output)
        return
    outcomes = asyncio.run(_performed(wanted, find(directory), chosen(output) == "table"))
    _display(outcomes, output)
    if not all(each.passed for each in outcomes):
        raise Ended(Exit.FAILURES)


async def _performed(wanted: list[Drill], running: Running, aloud: bool) -> list[Outcome]:
    from redrive.demo.drills import perform

    outcomes = []
    for each in wanted:
        notice((each.name, "bold"), f"  {each.title}")
        outcomes.append(await perform(each, running, _tell, _failure_handler if aloud else _ignore))
    return outcomes


def _tell(text: str) -> None:
    notice((f"  {text}", "dim"))


def _failure_handler(expectation: Expectation) -> None:
    if expectation.met:
        out("  ", ("✓", "good"), f" {expectation.text}")
    else:
        out("  ", ("✗", "bad"), f" {expectation.text}", (f": found {expectation.found}", "bad"))


def _ignore(_: Expectation) -> None:
    """Told at the end, in one piece."""


def _display(outcomes: list[Outcome], output: str | None) -> None:
    passed = sum(each.passed for each in outcomes)
    if chosen(output) == "json":
        show_json([_as_json(each) for each in outcomes])
    elif chosen(output) != "table":
        rows = [
            {"drill": each.drill.name, "expectation": one.text, "met": one.met, "found": one.found}
            for each in outcomes
            for one in each.expectations
        ]
        show_rows(rows, COLUMNS, output)
    notice(f"{passed} of {len(outcomes)} drills ended as expected.")


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "drill": outcome.drill.name,
        "title": outcome.drill.title,
        "passed": outcome.passed,
        "expectations": [each._asdict() for each in outcome.expectations],
    }
