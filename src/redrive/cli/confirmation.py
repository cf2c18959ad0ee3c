"""Asking: for a confirmation before something is taken away, and for a password, never an argument."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import click

from redrive.cli.outcome import DeclinedError
from redrive.cli.terminal import escape_controls, notice
from redrive.errors import RedriveError
from redrive.policy.credential import checked_password

dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
reason_option = click.option("--reason", default="", help="Why; it is kept in the audit.")
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def confirm(what: str, *, dry_run: bool, yes: bool) -> bool:
    """Is it to be done? Without --yes somebody is asked; if there is nobody, it is not."""
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
    """For what needs no asking: was it only to be said what would be done? Then it is."""
    if dry_run:
        notice(f"Would {what}.")
    return dry_run


def read_password() -> str:
    """From the terminal, twice and unseen, or else the first line of the standard input."""
    if find_spec("argon2") is None:  # said before anything is changed
        raise RedriveError("passwords need argon2-cffi, which is missing: pip install 'redrive[server]'")
    if sys.stdin.isatty():
        text = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = sys.stdin.readline().rstrip("\r\n")
    return checked_password(text)
