"""`redrive dlq group`: acknowledge, resolve, ignore or reopen a failure group."""

from __future__ import annotations

import time
from typing import NamedTuple

import click

from redrive.cli.checks import confirm, report_dry_run
from redrive.cli.client import Client, segment
from redrive.cli.commands import CommandGroup
from redrive.cli.connection import api_options
from redrive.cli.dlq.groups import PATH, show_group
from redrive.cli.dlq.selection import letters, letters_are
from redrive.cli.options import (
    DURATION,
    NumberParam,
    dry_run_option,
    output_option,
    reason_option,
    yes_option,
)
from redrive.cli.table import Row, short_fingerprint
from redrive.cli.terminal import escape, notice
from redrive.words.state import status
from redrive.words.time import machine

_fingerprint = click.argument("fingerprint", metavar="FINGERPRINT")


@click.group(cls=CommandGroup)
def group() -> None:
    """Acknowledge, resolve, ignore or reopen a failure group.

    FINGERPRINT identifies the group: at least the first 6 digits shown by `redrive dlq groups`.
    """


@group.command()
@_fingerprint
@output_option
@api_options
def view(client: Client, fingerprint: str, output: str | None) -> None:
    """Show a failure group; same as `redrive dlq groups FINGERPRINT`."""
    show_group(client, fingerprint.removeprefix("fp:"), output)


@group.command()
@_fingerprint
@reason_option
@dry_run_option
@api_options
def acknowledge(client: Client, fingerprint: str, reason: str, dry_run: bool) -> None:
    """Acknowledge a failure: someone is working on it."""
    _change(client, fingerprint, "acknowledge", dry_run, {"reason": reason})


@group.command()
@_fingerprint
@click.option("--dead-letters", is_flag=True, help="Also resolve the open dead letters of the group.")
@click.option(
    "--expect",
    type=NumberParam(0, 10_000),
    metavar="N",
    help="Change nothing unless exactly N dead letters would be resolved.",
)
@reason_option
@dry_run_option
@yes_option
@api_options
def resolve(
    client: Client,
    fingerprint: str,
    dead_letters: bool,
    expect: int | None,
    reason: str,
    dry_run: bool,
    yes: bool,
) -> None:
    """Resolve a failure: its cause is fixed.

    If the failure occurs again, the group reopens as REGRESSED.
    """
    if expect is not None and not dead_letters:
        raise click.UsageError("--expect needs --dead-letters.")
    found = _look_up(client, fingerprint)
    number = found.letters["open"] + found.letters["exhausted"]
    and_letters = f" and {letters(number)}" if dead_letters else ""
    what = f"resolve {found.description}{and_letters}"
    if not confirm(what, client.where, dry_run=dry_run, yes=yes or not dead_letters):
        return
    body = {"reason": reason, "dead_letters": dead_letters}
    if dead_letters:
        body["expect"] = number if expect is None else expect
    done = found.post(client, "resolve", body)
    if done["resolved"]:
        notice(f"Resolved {letters(done['resolved'])}.")
    if done["remaining"]:
        notice(
            f"{letters_are(done['remaining'])} still open. To replay, run "
            f"`redrive replay plan --group {short_fingerprint(done['fingerprint'])}`."
        )


@group.command()
@_fingerprint
@click.option("--for", "seconds", type=DURATION, metavar="DURATION", help="Ignore for this long, such as 7d.")
@click.option(
    "--beyond", type=NumberParam(1), metavar="N", help="Ignore until it has occurred more than N more times."
)
@click.option(
    "--version", metavar="VERSION", help="Ignore until it occurs in a code version other than this."
)
@reason_option
@dry_run_option
@api_options
def ignore(
    client: Client,
    fingerprint: str,
    seconds: float | None,
    beyond: int | None,
    version: str | None,
    reason: str,
    dry_run: bool,
) -> None:
    """Ignore a failure, for a while or permanently."""
    until = None if seconds is None else machine(time.time() + seconds)
    conditions = {"until": until, "beyond": beyond, "version": version}
    _change(client, fingerprint, "ignore", dry_run, {"reason": reason, **conditions})


@group.command()
@_fingerprint
@reason_option
@dry_run_option
@api_options
def reopen(client: Client, fingerprint: str, reason: str, dry_run: bool) -> None:
    """Reopen a failure group."""
    _change(client, fingerprint, "reopen", dry_run, {"reason": reason})


class Group(NamedTuple):
    """A snapshot of a group; a change is refused if the group has changed since."""

    fingerprint: str
    description: str
    letters: dict[str, int]
    version: str | None

    def post(self, client: Client, verb: str, body: Row) -> Row:
        path = f"{PATH}/{segment(self.fingerprint)}/{verb}"
        done: Row = client.post(path, body, if_match=self.version)
        notice(f"Group {short_fingerprint(done['fingerprint'])} is now {status(done['state'])}.")
        return done


def _look_up(client: Client, fingerprint: str) -> Group:
    answer = client.request("GET", f"{PATH}/{segment(fingerprint.removeprefix('fp:'))}")
    value = answer.value
    description = f"group {short_fingerprint(value['fingerprint'])} ({escape(value['title'])[:80]})"
    return Group(value["fingerprint"], description, value["dead_letters"], answer.headers.get("etag"))


def _change(client: Client, fingerprint: str, verb: str, dry_run: bool, body: Row) -> None:
    found = _look_up(client, fingerprint)
    if not report_dry_run(f"{verb} {found.description}", dry_run, client.where):
        found.post(client, verb, body)
