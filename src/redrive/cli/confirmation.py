"""Confirmations before a change, dry runs, and the options of both."""

from __future__ import annotations

import sys

import click

from redrive.cli.outcome import DeclinedError
from redrive.cli.terminal import escape_controls, notice

dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
reason_option = click.option("--reason", default="", help="Why; it is kept in the audit.")
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def confirm(what: str, *, dry_run: bool, yes: bool) -> bool:
    """Ask, unless --yes was given. False in a dry run, which only says what would be done."""
    if report_dry_run(what, dry_run):
        return False
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError(f"To {what}, confirm it with --yes: there is no terminal to ask on.")
    if not click.confirm(escape_controls(f"Really {what}?"), err=True):
        raise DeclinedError("declined; nothing was changed")
    return True


def report_dry_run(what: str, dry_run: bool) -> bool:
    """Say what would be done if this is a dry run; return whether it is one."""
    if dry_run:
        notice(f"Would {what}.")
    return dry_run
