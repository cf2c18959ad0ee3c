"""`redrive dlq group`: what people say about a failure group."""

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
from redrive.cli.options import DURATION, dry_run_option, output_option, reason_option, yes_option
from redrive.cli.table import Row, short_fingerprint
from redrive.cli.terminal import escape, notice
from redrive.words.time import machine

_fingerprint = click.argument("fingerprint", metavar="FINGERPRINT")


@click.group(cls=CommandGroup)
def group() -> None:
    """Say that a failure is seen, gone, or ignored.

    All of its dead letters together: FINGERPRINT is that of `redrive dlq groups`, at least 6 digits of it.
    """


@group.command()
@_fingerprint
@output_option
@api_options
def view(client: Client, fingerprint: str, output: str | None) -> None:
    """Show a group; the same as `redrive dlq groups FINGERPRINT`."""
    show_group(client, fingerprint.removeprefix("fp:"), output)


@group.command()
@_fingerprint
@reason_option
@dry_run_option
@api_options
def acknowledge(client: Client, fingerprint: str, reason: str, dry_run: bool) -> None:
    """Say that somebody looks after it."""
    _change(client, fingerprint, "acknowledge", dry_run, {"reason": reason})


@group.command()
@_fingerprint
@click.option("--dead-letters", is_flag=True, help="Resolve its open dead letters with it.")
@click.option(
    "--expect", type=click.IntRange(0, 10_000), metavar="N", help="Change nothing unless it is so many."
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
    """Say that its cause is gone.

    Should it occur again, it is open, and has regressed.
    """
    if expect is not None and not dead_letters:
        raise click.UsageError("--expect counts what --dead-letters resolves.")
    found = _look_up(client, fingerprint)
    number = found.letters["open"] + found.letters["exhausted"]
    too = f" and with it {letters(number)}" if dead_letters else ""
    if not confirm(
        f"resolve {found.description}{too} on {client.where}", dry_run=dry_run, yes=yes or not dead_letters
    ):
        return
    body = {"reason": reason, "dead_letters": dead_letters}
    if dead_letters:
        body["expect"] = number if expect is None else expect
    done = found.post(client, "resolve", body)
    if done["resolved"]:
        notice(f"With it, {letters_are(done['resolved'])} resolved.")
    if done["left"]:
        notice(
            f"{letters_are(done['left'])} still open; "
            f"`redrive replay plan --group {short_fingerprint(done['fingerprint'])}` replays them."
        )


@group.command()
@_fingerprint
@click.option("--for", "seconds", type=DURATION, metavar="LENGTH", help="Only for so long, such as 7d.")
@click.option(
    "--beyond", type=click.IntRange(1), metavar="N", help="Until it has occurred more than N times again."
)
@click.option(
    "--version", metavar="VERSION", help="Until it occurs in another version of the code than this."
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
    """Say that nobody need look at it, for now or for good."""
    until = None if seconds is None else machine(time.time() + seconds)
    conditions = {"until": until, "beyond": beyond, "version": version}
    _change(client, fingerprint, "ignore", dry_run, {"reason": reason, **conditions})


@group.command()
@_fingerprint
@reason_option
@dry_run_option
@api_options
def reopen(client: Client, fingerprint: str, reason: str, dry_run: bool) -> None:
    """Take back what was said about it."""
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
        notice(f"The group {short_fingerprint(done['fingerprint'])} is {done['state'].lower()}.")
        return done


def _look_up(client: Client, fingerprint: str) -> Group:
    answer = client.request("GET", f"{PATH}/{segment(fingerprint.removeprefix('fp:'))}")
    value = answer.value
    description = f"the group {short_fingerprint(value['fingerprint'])} ({escape(value['title'])[:80]})"
    return Group(value["fingerprint"], description, value["dead_letters"], answer.headers.get("etag"))


def _change(client: Client, fingerprint: str, verb: str, dry_run: bool, body: Row) -> None:
    found = _look_up(client, fingerprint)
    if not report_dry_run(f"{verb} {found.description} on {client.where}", dry_run):
        found.post(client, verb, body)
