"""`redrive breaker`: which dependencies fail, what waits for them, and taking a breaker by hand."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

import click

from redrive.cli.checks import confirm, read_named, report_dry_run
from redrive.cli.client import Client, segment
from redrive.cli.commands import CommandGroup
from redrive.cli.connection import api_options
from redrive.cli.options import DurationParam, dry_run_option, output_option, yes_option
from redrive.cli.output import show_one, show_rows
from redrive.cli.table import Row, TableColumn, ago, counted, stamp
from redrive.cli.terminal import notice, out, styled_state
from redrive.policy.bounds import MAX_DELAY_SECONDS
from redrive.words.time import age

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

PATH = "/api/v1/breakers"

COLUMNS = (
    TableColumn("name", whole=True),
    TableColumn("state", whole=True),
    "failing",
    TableColumn("waiting"),
    TableColumn("open_until", "next probe", ago),
    "forced",
    "reason",
)

reason_option = click.option("--reason", required=True, help="Why; others see it, and it is in the audit.")
for_option = click.option(
    "--for",
    "seconds",
    type=DurationParam(1.0, MAX_DELAY_SECONDS),
    metavar="LENGTH",
    help="For so long, such as 10m; without it until `redrive breaker auto`.",
)


@click.group(cls=CommandGroup)
def breaker() -> None:
    """Circuit breakers: list, view, open, close, leave to themselves.

    An open breaker holds the work that needs a failing dependency. It is probed, and closes by itself.
    """


@breaker.command("list")
@output_option
@api_options
def list_breakers(client: Client, output: str | None) -> None:
    """List the breakers, and what waits for each."""
    none = "There are no breakers: no step has named one so far."
    show_rows(client.get(PATH)["items"], COLUMNS, output, flat=_flat, empty=none)


@breaker.command()
@click.argument("name")
@output_option
@api_options
def view(client: Client, name: str, output: str | None) -> None:
    """Show a breaker: what it judges by, and when it opens and closes."""
    found = read_named(client, PATH, "breaker", name)
    names = [column if isinstance(column, str) else column.name for column in COLUMNS]
    with_rules = client.server is not None  # they are in the application's code, which only a server may run
    show_one(found, names, output, lambda screen: _draw(screen, found, with_rules), flat=_flat)


@breaker.command("open")
@click.argument("name")
@reason_option
@for_option
@dry_run_option
@api_options
def open_breaker(client: Client, name: str, reason: str, seconds: float | None, dry_run: bool) -> None:
    """Open a breaker by hand: what needs it waits, and nothing is lost."""
    _force(client, name, "OPEN", reason, seconds, dry_run)


@breaker.command()
@click.argument("name")
@reason_option
@for_option
@dry_run_option
@yes_option
@api_options
def close(client: Client, name: str, reason: str, seconds: float | None, dry_run: bool, yes: bool) -> None:
    """Close a breaker by hand: what waits goes on, whatever the failures say.

    If work waits, you are asked: should the dependency still fail, that costs this work its attempts.
    """
    _force(client, name, "CLOSED", reason, seconds, dry_run, yes=yes)


@breaker.command()
@click.argument("name")
@dry_run_option
@api_options
def auto(client: Client, name: str, dry_run: bool) -> None:
    """Leave a breaker to itself again."""
    found = read_named(client, PATH, "breaker", name)
    if found["force"] is None:
        notice(f"The breaker {name!r} is left to itself already.")
    elif not report_dry_run(f"leave the breaker {name!r} to itself", dry_run):
        after = client.post(f"{PATH}/{segment(name)}/release")
        notice(f"The breaker {name!r} is left to itself, and is {after['state']}.")


def _force(
    client: Client,
    name: str,
    state: str,
    reason: str,
    seconds: float | None,
    dry_run: bool,
    *,
    yes: bool = True,
) -> None:
    held = read_named(client, PATH, "breaker", name)["waiting"]
    until = "until it is left to itself" if seconds is None else f"for {age(seconds)}"
    if state == "OPEN":
        what = f"open the breaker {name!r} {until}; {counted(held)} wait for it now"
    else:
        what = f"close the breaker {name!r} {until}, {_let_go(held)}"
    if not confirm(what, dry_run=dry_run, yes=yes or not held["number"]):
        return
    body = {"state": state, "reason": reason, "seconds": seconds}
    after = client.post(f"{PATH}/{segment(name)}/force", body)
    notice(f"The breaker {name!r} is {after['state']} {until}.")
    if seconds is None:
        notice(f"`redrive breaker auto {name}` leaves it to itself again.")


def _let_go(held: Row) -> str:
    if not held["number"]:
        return "for which nothing waits"
    one = held["number"] == 1
    what = "1 run waits: it goes" if one else f"{counted(held)} runs wait: they go"
    return f"for which {what} on at once, and what fails then costs attempts"


def _draw(screen: Screen, breaker: Row, with_rules: bool) -> None:
    screen.headline(f"Breaker {breaker['name']}", styled_state(breaker["state"]))
    for sentence in _sentences(breaker):
        screen.paragraph(sentence, indent=0)
    out("")
    screen.facts(_facts(breaker, with_rules))
    screen.next_steps(_next(breaker))


def _facts(breaker: Row, with_rules: bool) -> Iterator[tuple[str, str | None]]:
    slow = f", {breaker['slow_calls']:,} slow" if breaker["slow_calls"] else ""
    yield "judged by", f"{breaker['failures']:,} of {breaker['calls']:,} calls failed{slow}"
    yield "opened", stamp(breaker["opened_at"]) if breaker["opened_at"] else None
    if with_rules:
        policy = breaker["policy"]
        yield "opens when", _opens(policy)
        yield "probed after", f"{age(policy['cool_down'])}, at most {age(policy['longest_open'])}"
        yield "closes after", f"{policy['successes_to_close']} good probes"


def _sentences(breaker: Row) -> Iterator[str]:
    """What it means for the work."""
    force, held = breaker["force"], breaker["waiting"]
    if held["number"] == 1:
        yield "1 run waits for it, and goes on by itself when it closes."
    elif held["number"]:
        yield f"{counted(held)} runs wait for it, and go on by themselves when it closes."
    if force is not None:
        by = f" by {force['by']}" if force["by"] else ""
        why = f": {force['reason']}" if force["reason"] else ""
        until = "until it is left to itself" if force["until"] is None else f"until {stamp(force['until'])}"
        yield f"{force['state'].capitalize()} by hand{by} {until}{why}."
    elif breaker["state"] == "OPEN" and breaker["open_until"] is not None:
        yield f"It is probed {soon(breaker['open_until'])}."


def soon(moment: str) -> str:
    """When it is probed."""
    text = ago(moment)
    return text if text.startswith("in ") else "with the next call"


def _opens(policy: Row) -> str:
    parts = [f"{policy['failure_rate']:.0%} of the calls fail"]
    if policy["slow_seconds"] is not None:
        parts.append(f"{policy['slow_rate']:.0%} take {policy['slow_seconds']:g} s or longer")
    window = [] if policy["window_calls"] is None else [f"the last {policy['window_calls']:,}"]
    if policy["window_seconds"] is not None:
        window.append(f"those within {age(policy['window_seconds'])}")
    return f"{' or '.join(parts)}, of {' or '.join(window)}, from {policy['minimum_calls']:,} on"


def _next(breaker: Row) -> Iterator[tuple[str, str]]:
    name = quote(breaker["name"])
    if breaker["force"] is not None:
        yield f"redrive breaker auto {name}", "leave it to itself"
    elif breaker["state"] != "CLOSED":
        until = breaker["open_until"]
        probed = "it is being probed" if until is None else f"it is probed {soon(until)}"
        yield f"redrive breaker view {name}", f"wait: {probed}"
    if breaker["state"] == "OPEN":
        yield f"redrive breaker close {name} --reason …", "let the work go on now"
    else:
        yield f"redrive breaker open {name} --reason …", "hold what needs it"
    if breaker["waiting"]["number"]:
        yield "redrive run list is:held", "what waits"


def _flat(breaker: Row) -> Row:
    force = breaker["force"] or {}
    return {
        **breaker,
        "failing": f"{breaker['failures']:,} of {breaker['calls']:,}",
        "waiting": breaker["waiting"]["number"],
        "open_until": breaker["open_until"] if breaker["state"] == "OPEN" and not force else None,
        "forced": force.get("by") or ("yes" if force else None),
        "reason": force.get("reason"),
    }
