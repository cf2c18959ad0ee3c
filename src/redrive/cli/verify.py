"""`redrive verify`: check the invariants of Redrive in a database."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from operator import itemgetter
from typing import TYPE_CHECKING

import click

from redrive.cli.connection import run_on_database
from redrive.cli.options import DURATION, GlobalOptions, NumberParam, output_option, settings_options
from redrive.cli.outcome import CommandExit, Exit
from redrive.cli.output import chosen, screen, show_rows
from redrive.cli.progress import activity
from redrive.cli.table import Row, TableColumn
from redrive.cli.terminal import Part, notice, out
from redrive.parts import parts_of
from redrive.words.violation import ADVICE, PROMISES

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.verify import Verdict

COLUMNS = ("promise", "meaning", "checked", "found")
TABLE = (
    TableColumn("promise", whole=True),
    TableColumn("meaning"),
    TableColumn("checked", "rows checked", short="{:,}".format, whole=True),
    TableColumn("found", short="{:,}".format, whole=True),
)
FROM_OUTSIDE = ("I1", "I2")
"""Only a caller can observe these; a test checks them from Python, with a Witness."""


def _number(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Reject nan, with which every clock would pass."""
    if isnan(value):
        raise click.BadParameter("use a number of seconds, such as 0.05", context, parameter)
    return value


@click.command()
@click.option("--settled", is_flag=True, help="Expect that all work has finished, as after a test.")
@click.option(
    "--leeway",
    type=DURATION,
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="Allow work to be overdue by this much.",
)
@click.option(
    "--most",
    metavar="N",
    type=NumberParam(1, 100_000),
    default=100,
    show_default=True,
    help="List at most N findings per promise.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0.0, 3600.0),
    default=0.05,
    show_default=True,
    callback=_number,
    metavar="SECONDS",
    help="Allow worker clocks to differ by this much.",
)
@output_option
@settings_options
@click.pass_obj
def verify(
    given: GlobalOptions, output: str | None, settled: bool, leeway: float, most: int, tolerance: float
) -> None:
    """Check that the database keeps every promise of Redrive.

    Checks that no work is lost, no retry budget is exceeded, only one worker holds a run, and more. Lists
    each promise with the number of rows checked and the violations. Only reads; workers can run. Exits
    with 7 if a promise is broken.
    """

    async def check(app: Redrive) -> Verdict:
        from redrive.verify import verify_unchanged

        with activity() as show:
            return await verify_unchanged(
                parts_of(app).database,
                settled=settled,
                leeway=leeway,
                most=most,
                tolerance=tolerance,
                on_check=lambda promise: show(f"Checking {promise}: {PROMISES[promise]} …"),
            )

    verdict = run_on_database(given, check)
    rows, form = list(_rows(verdict)), chosen(output)
    show_rows(rows, TABLE if form == "table" else COLUMNS, form)
    if form == "table":
        _draw(rows)
    elif form in ("plain", "csv"):
        _mention(rows)
    if not verdict.sound:
        raise CommandExit(Exit.FAILURES)


def _rows(verdict: Verdict) -> Iterator[Row]:
    for promise, meaning in PROMISES.items():
        if promise in FROM_OUTSIDE:
            continue
        findings = [finding for finding in verdict.findings if finding.invariant == promise]
        yield {
            "promise": promise,
            "meaning": meaning,
            "checked": verdict.checked[promise],
            "found": verdict.found(promise),
            "complete": not verdict.is_capped(promise),
            "advice": ADVICE[promise] if findings else None,
            "findings": [finding.to_json() for finding in findings],
        }


def _draw(rows: list[Row]) -> None:
    drawn = screen()
    for row in filter(itemgetter("findings"), rows):
        drawn.heading(*_title(row))
        drawn.columns(((("✗", "bad"), text) for text in _findings(row)), gap=1)
        drawn.columns([("→", row["advice"])], gap=1)
    out("")
    out(*_summary(rows))


def _mention(rows: list[Row]) -> None:
    """Report the findings on stderr, because stdout has the table for a program."""
    for row in filter(itemgetter("findings"), rows):
        title, broken = _title(row)
        notice("\n", title, "  ", broken)
        for text in _findings(row):
            notice(f"  ✗ {text}")
        notice(f"  → {row['advice']}")
    notice("\n", *_summary(rows))


def _title(row: Row) -> tuple[str, Part]:
    listed = "" if row["complete"] else f", at least {row['found']:,}; use --most N for more"
    return f"{row['promise']}: {row['meaning']}", (f"(broken{listed})", "bad")


def _findings(row: Row) -> Iterator[str]:
    return (f"{finding['subject']}: {finding['text']}" for finding in row["findings"])


def _summary(rows: list[Row]) -> list[Part]:
    broken = [row["promise"] for row in rows if row["found"]]
    if broken:
        return [(f"Broken promises: {', '.join(broken)}.", "bad")]
    idle = sum(not row["checked"] for row in rows)
    nothing = f" {idle} had nothing to check." if idle else ""
    return [("All promises are kept.", "good"), nothing]
