"""`redrive doctor`: is the database well, and the work on it, and what is to be done?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from redrive.cli.connection import database_settings
from redrive.cli.options import GlobalOptions, settings_options
from redrive.cli.outcome import Ended, Exit
from redrive.cli.output import chosen, output_option, show_rows, terminal_width
from redrive.cli.terminal import bad, bold, dim, good, out, visible, warn
from redrive.errors import StoreUnavailableError

if TYPE_CHECKING:
    from redrive.doctor import Finding, HealthReport

COLUMNS = ("state", "check", "seen", "advice", "command")
MAX_WIDTH = 110
INDENT = 4
SIGNS = {"bad": "✗", "warn": "!", "unknown": "?", "ok": "✓"}
COLOURS = {"bad": bad, "warn": warn, "unknown": dim, "ok": good}
HEADS = {"bad": "Bad", "warn": "Warnings", "unknown": "Not known", "ok": "Well"}


@click.command()
@click.option("--strict", is_flag=True, help="End with 7 for warnings, too.")
@output_option
@settings_options
@click.pass_obj
def doctor(given: GlobalOptions, output: str | None, strict: bool) -> None:
    """Look at the database and at the work on it, and say what to do.

    Looks at versions, tables, durability, clocks, long transactions, disk, leases, queues, workers, breakers
    and dead letters. It only reads. Ends with 7 when something is bad.
    """
    report = asyncio.run(_examined(given))
    findings = [each for state in SIGNS for each in report.findings if each.state == state]
    if chosen(output) == "table":
        for line in _lines(report, findings):
            out(line)
    else:
        show_rows([each._asdict() for each in findings], COLUMNS, output)
    if not report.is_well(strict=strict):
        raise Ended(Exit.FAILURES)


async def _examined(given: GlobalOptions) -> HealthReport:
    from redrive.app import Redrive  # takes longer than all the rest to load, so only where it is needed
    from redrive.doctor import examine
    from redrive.engine.encryption import key_id

    settings = database_settings(given)
    keys = [key_id(each) for each in settings.read_encryption_keys()]
    app = Redrive(settings=settings, log=False)
    try:
        return await examine(app.database, settings=settings, keys=keys)
    except StoreUnavailableError as error:
        raise StoreUnavailableError(
            f"{error}. Check that it runs, that its address is right, and that this user may use it"
        ) from error
    finally:
        await app.close()


def _lines(report: HealthReport, findings: list[Finding]) -> Iterator[str]:
    room = min(MAX_WIDTH, terminal_width())
    names = max(len(each.check) for each in findings) + 2
    yield dim(visible(f"Looked at {report.database}"))
    for state, head in HEADS.items():
        own = [each for each in findings if each.state == state]
        if own:
            yield ""
            yield bold(f"{head} ({len(own)})")
        for each in own:
            yield from _finding(each, names, room)
    yield ""
    yield _summary(findings)


def _finding(finding: Finding, names: int, room: int) -> Iterator[str]:
    sign = COLOURS[finding.state](SIGNS[finding.state])
    begin = INDENT + names
    first, *more = _wrapped(finding.seen, room - begin)
    yield f"  {sign} {finding.check:{names}}{first}"
    for line in more:
        yield f"{'':{begin}}{line}"
    for line in _wrapped(finding.meaning, room - begin):
        yield dim(f"{'':{begin}}{line}")
    for number, line in enumerate(_wrapped(finding.advice, room - begin - 2)):
        yield f"{'':{begin}}{'  ' if number else '→ '}{line}"
    if finding.command:  # in one line, to be copied
        yield f"{'':{begin}}$ {visible(finding.command)}"


def _wrapped(text: str, room: int) -> list[str]:
    return wrap(visible(text), max(20, room), break_on_hyphens=False)


def _summary(findings: list[Finding]) -> str:
    numbers = {state: sum(each.state == state for each in findings) for state in SIGNS}
    warnings = f"{numbers['warn']} warning{'' if numbers['warn'] == 1 else 's'}"
    unknown = f", {numbers['unknown']} not known" if numbers["unknown"] else ""
    text = f"{numbers['bad']} bad, {warnings}{unknown}, {numbers['ok']} well"
    state = next((state for state in ("bad", "warn") if numbers[state]), "ok")
    return COLOURS[state](text)
