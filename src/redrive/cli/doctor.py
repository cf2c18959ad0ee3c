"""`redrive doctor`: check the health of the database and of its work, and advise what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from redrive.cli.connection import run_on_database
from redrive.cli.options import GlobalOptions, output_option, settings_options
from redrive.cli.outcome import CommandExit, Exit
from redrive.cli.output import chosen, screen, show_rows
from redrive.cli.terminal import escape, out
from redrive.errors import StoreUnavailableError
from redrive.parts import parts_of
from redrive.words.number import plural

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.cli.screen import Screen
    from redrive.doctor import Finding, HealthReport

COLUMNS = ("state", "check", "code", "seen", "advice", "command")
SIGNS = {"bad": "✗", "warn": "!", "unknown": "?", "note": "·", "ok": "✓"}
STYLES = {"bad": "bad", "warn": "warn", "unknown": "dim", "note": "dim", "ok": "good"}
HEADS = {"bad": "Problems", "warn": "Warnings", "unknown": "Not checked", "note": "Notes", "ok": "OK"}


@click.command()
@click.option("--strict", is_flag=True, help="Exit with 7 for warnings too.")
@output_option
@settings_options
@click.pass_obj
def doctor(given: GlobalOptions, output: str | None, strict: bool) -> None:
    """Check the health of the database and of its work.

    Checks versions, tables, durability, clocks, long transactions, disk, leases, queues, workers, breakers
    and dead letters, and says what to do about each problem. Only reads. Exits with 7 if it finds a problem.
    """
    report = run_on_database(given, _examine)
    findings = [finding for state in SIGNS for finding in report.findings if finding.state == state]
    if chosen(output) == "table":
        _draw(screen(), report, findings)
    else:
        show_rows([finding.to_json() for finding in findings], COLUMNS, output)
    if not report.is_well(strict=strict):
        raise CommandExit(Exit.FAILURES)


async def _examine(app: Redrive) -> HealthReport:
    from redrive.doctor import examine
    from redrive.engine.encryption import key_id

    keys = [key_id(key) for key in parts_of(app).settings.read_encryption_keys()]
    try:
        return await examine(parts_of(app).database, settings=parts_of(app).settings, keys=keys)
    except StoreUnavailableError as error:
        raise StoreUnavailableError(
            f"{error}. Check that it is running, that its address is right, and that this user has access"
        ) from error


def _draw(screen: Screen, report: HealthReport, findings: list[Finding]) -> None:
    names = max(len(finding.check) for finding in findings) + 1
    out((escape(f"Database {report.database}"), "dim"))
    for state, head in HEADS.items():
        of_state = [finding for finding in findings if finding.state == state]
        if of_state:
            screen.heading(f"{head} ({len(of_state)})")
        for finding in of_state:
            _draw_finding(screen, finding, names)
    numbers = {state: sum(finding.state == state for finding in findings) for state in SIGNS}
    unknown = f", {numbers['unknown']} not checked" if numbers["unknown"] else ""
    notes = f", {plural(numbers['note'], 'note')}" if numbers["note"] else ""
    bad, warnings = plural(numbers["bad"], "problem"), plural(numbers["warn"], "warning")
    text = f"{bad}, {warnings}{unknown}{notes}, {numbers['ok']} OK"
    out("")
    out((text, next((state for state in ("bad", "warn") if numbers[state]), "good")))


def _draw_finding(screen: Screen, finding: Finding, names: int) -> None:
    sign = (SIGNS[finding.state], STYLES[finding.state])
    screen.columns([(sign, finding.check, finding.seen)], widths=(1, names), gap=1)
    indent = 2 + 1 + 1 + names + 1
    screen.paragraph((finding.meaning, "dim"), indent=indent)
    if finding.advice:
        screen.columns([("→", finding.advice)], indent=indent, gap=1)
    if finding.command:
        out(f"{'':{indent}}$ {escape(finding.command)}")  # on one line, to be copied
