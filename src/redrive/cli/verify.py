"""`redrive verify`: does what the database holds keep every promise?"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from math import isnan
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from redrive.cli.connection import database_settings
from redrive.cli.options import GlobalOptions, settings_options
from redrive.cli.outcome import Ended, Exit
from redrive.cli.output import Column, chosen, output_option, show_rows, terminal_width
from redrive.cli.parameters import DURATION
from redrive.cli.terminal import bad, bold, good, notice, out, visible

if TYPE_CHECKING:
    from redrive.verify import Verdict

COLUMNS = ("promise", "meaning", "checked", "found")
TABLE = (
    Column("promise", whole=True),
    Column("meaning"),
    Column("checked", "rows checked", short="{:,}".format, whole=True),
    Column("found", short="{:,}".format, whole=True),
)
MAX_WIDTH = 110
ERASED = "\r\x1b[K"
FROM_OUTSIDE = ("I1", "I2")
"""Only somebody outside can have seen these: they are checked from Python, with a Witness."""


def _number(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Nothing differs by more than nan: every clock would be right."""
    if isnan(value):
        raise click.BadParameter("it is a number of seconds, such as 0.05", context, parameter)
    return value


@click.command()
@click.option("--settled", is_flag=True, help="Everything must have ended, as after a test.")
@click.option(
    "--leeway",
    type=DURATION,
    default="60s",
    show_default=True,
    metavar="LENGTH",
    help="How long something may be overdue where work goes on.",
)
@click.option(
    "--most",
    metavar="N",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="So many findings of each promise are listed.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0.0, 3600.0),
    default=0.05,
    show_default=True,
    callback=_number,
    metavar="SECONDS",
    help="By how much the clocks of workers may differ.",
)
@output_option
@settings_options
@click.pass_obj
def verify(
    given: GlobalOptions, output: str | None, settled: bool, leeway: float, most: int, tolerance: float
) -> None:
    """Check that the database keeps every promise of Redrive.

    Nothing is lost, no budget exceeded, one holder at a time, and more: each promise with the rows it was
    checked on, and what is wrong. It only reads, and others may work meanwhile. Ends with 7 when something is
    wrong.
    """
    verdict = asyncio.run(_verified(given, settled=settled, leeway=leeway, most=most, tolerance=tolerance))
    rows = list(_rows(verdict))
    if chosen(output) == "table":
        show_rows(rows, TABLE, "table")
        for line in _findings(rows):
            out(line)
    else:
        show_rows(rows, COLUMNS, output)
        if chosen(output) in ("plain", "csv"):
            for line in _findings(rows):
                notice(line)
    if not verdict.sound:
        raise Ended(Exit.FAILURES)


async def _verified(given: GlobalOptions, **options: Any) -> Verdict:
    from redrive.app import Redrive  # takes longer than all the rest to load, so only where it is needed
    from redrive.verify import verify_unchanged

    app = Redrive(settings=database_settings(given), log=False)
    try:
        return await verify_unchanged(app.database, told=_tell, **options)
    finally:
        _tell("")
        await app.close()


def _tell(promise: str) -> None:
    """What is looked at now, in one line that the next one takes the place of, where somebody looks at it."""
    from redrive.verify.verdict import INVARIANTS

    if sys.stderr.isatty():
        text = f"Checking {promise}: {INVARIANTS[promise]} …" if promise else ""
        click.echo(ERASED + text[: terminal_width() - 1], err=True, nl=False)


def _rows(verdict: Verdict) -> Iterator[dict[str, Any]]:
    from redrive.verify.verdict import ADVICE, INVARIANTS

    for promise, meaning in INVARIANTS.items():
        if promise in FROM_OUTSIDE:
            continue
        own = [each for each in verdict.findings if each.invariant == promise]
        yield {
            "promise": promise,
            "meaning": meaning,
            "checked": verdict.checked[promise],
            "found": verdict.found(promise),
            "complete": not verdict.is_capped(promise),
            "advice": ADVICE[promise] if own else None,
            "findings": [{"subject": each.subject, "text": each.text} for each in own],
        }


def _findings(rows: list[dict[str, Any]]) -> Iterator[str]:
    room = min(MAX_WIDTH, terminal_width())
    for row in rows:
        if not row["findings"]:
            continue
        yield ""
        yield bold(f"{row['promise']}: {row['meaning']}") + bad(_broken(row))
        for each in row["findings"]:
            yield from _wrapped(f"{each['subject']}: {each['text']}", "  ✗ ", room)
        yield from _wrapped(row["advice"], "  → ", room)
    yield ""
    yield _summary(rows)


def _broken(row: dict[str, Any]) -> str:
    listed = "" if row["complete"] else f", at least {row['found']:,}; --most shows more"
    return f" (broken{listed})"


def _summary(rows: list[dict[str, Any]]) -> str:
    broken = [row["promise"] for row in rows if row["found"]]
    if broken:
        return bad(f"Broken promises: {', '.join(broken)}.")
    idle = sum(not row["checked"] for row in rows)
    nothing = f" For {idle} of them there was nothing to check." if idle else ""
    return good("Every promise is kept.") + nothing


def _wrapped(text: str, mark: str, room: int) -> Iterator[str]:
    lines = wrap(visible(text), max(20, room - len(mark)), break_on_hyphens=False)
    for number, line in enumerate(lines):
        yield f"{mark if number == 0 else ' ' * len(mark)}{line}"
