"""`redrive breaker`: show breakers and the work they hold, and open or close them by hand."""

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
from redrive.cli.table import Row, TableColumn, ago, counted, is_future, stamp
from redrive.cli.terminal import notice, out, styled_status
from redrive.policy.bounds import MAX_DELAY_SECONDS
from redrive.words.number import noun, percent, plural
from redrive.words.time import age

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

PATH = "/api/v1/breakers"

COLUMNS = (
    TableColumn("name", whole=True),
    TableColumn("state", whole=True, shown="status"),
    "failing",
    TableColumn("waiting", "on hold"),
    TableColumn("open_until", "next probe", ago),
    TableColumn("forced", "forced by"),
    "reason",
)

reason_option = click.option(
    "--reason", required=True, help="Record a reason, shown with the breaker and in the audit log."
)
for_option = click.option(
    "--for",
    "seconds",
    type=DurationParam(1.0, MAX_DELAY_SECONDS),
    metavar="DURATION",
    help="Go back to automatic control after this long, such as 10m. Default: never.",
)


@click.group(cls=CommandGroup)
def breaker() -> None:
    """Manage circuit breakers: list, view, open or close them.

    An open breaker holds the work that needs a failing dependency. Redrive probes the dependency and closes
    the breaker when it works again.
    """


@breaker.command("list")
@output_option
@api_options
def list_breakers(client: Client, output: str | None) -> None:
    """List breakers and how much work each one holds."""
    none = "No breakers: no step has named one yet."
    show_rows(client.get(PATH)["items"], COLUMNS, output, flat=_flat, empty=none)


@breaker.command()
@click.argument("name")
@output_option
@api_options
def view(client: Client, name: str, output: str | None) -> None:
    """Show a breaker: its recent calls, and when it opens and closes."""
    found = read_named(client, PATH, "breaker", name)
    names = [column if isinstance(column, str) else column.name for column in COLUMNS]
    with_rules = client.server is not None  # only a server runs the code that has the rules
    show_one(found, names, output, lambda screen: _draw(screen, found, with_rules), flat=_flat)


@breaker.command("open")
@click.argument("name")
@reason_option
@for_option
@dry_run_option
@api_options
def open_breaker(client: Client, name: str, reason: str, seconds: float | None, dry_run: bool) -> None:
    """Open a breaker by hand and hold the work that needs it. No work is lost."""
    _force(client, name, "OPEN", reason, seconds, dry_run)


@breaker.command()
@click.argument("name")
@reason_option
@for_option
@dry_run_option
@yes_option
@api_options
def close(client: Client, name: str, reason: str, seconds: float | None, dry_run: bool, yes: bool) -> None:
    """Close a breaker by hand and release the work it holds.

    Asks for confirmation if the breaker holds work: if the dependency still fails, the work uses up
    attempts.
    """
    _force(client, name, "CLOSED", reason, seconds, dry_run, yes=yes)


@breaker.command()
@click.argument("name")
@dry_run_option
@api_options
def auto(client: Client, name: str, dry_run: bool) -> None:
    """Return a breaker to automatic control."""
    found = read_named(client, PATH, "breaker", name)
    if found["force"] is None:
        notice(f"Breaker {name!r} is already under automatic control.")
    elif not report_dry_run(f"return breaker {name!r} to automatic control", dry_run):
        after = client.post(f"{PATH}/{segment(name)}/release")
        notice(f"Returned breaker {name!r} to automatic control. It is {after['status']}.")


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
    until = "" if seconds is None else f" for {age(seconds)}"
    if state == "OPEN":
        what = f"open breaker {name!r}{until} (it holds {_runs(held)} now)"
    else:
        what = f"close breaker {name!r}{until}{_release_text(held)}"
    if not confirm(what, dry_run=dry_run, yes=yes or not held["number"]):
        return
    body = {"state": state, "reason": reason, "seconds": seconds}
    after = client.post(f"{PATH}/{segment(name)}/force", body)
    notice(f"Breaker {name!r} is {after['status']}{until}.")
    if seconds is None:
        notice(f"Return it to automatic control with `redrive breaker auto {quote(name)}`.")


def _runs(held: Row) -> str:
    return f"{counted(held)} {noun(held['number'], 'run')}"


def _release_text(held: Row) -> str:
    if not held["number"]:
        return " (no runs are on hold)"
    return f" and release {_runs(held)}; their failed attempts will count"


def _draw(screen: Screen, breaker: Row, with_rules: bool) -> None:
    screen.headline(f"Breaker {breaker['name']}", styled_status(breaker))
    for sentence in _sentences(breaker):
        screen.paragraph(sentence, indent=0)
    out("")
    screen.facts(_facts(breaker, with_rules))
    screen.next_steps(_next(breaker))


def _facts(breaker: Row, with_rules: bool) -> Iterator[tuple[str, str | None]]:
    slow = f", {breaker['slow_calls']:,} slow" if breaker["slow_calls"] else ""
    yield "recent calls", f"{breaker['failures']:,} of {breaker['calls']:,} failed{slow}"
    yield "opened", stamp(breaker["opened_at"]) if breaker["opened_at"] else None
    if with_rules:
        policy = breaker["policy"]
        yield "opens when", _opens(policy)
        yield (
            "probed after",
            f"{age(policy['cool_down'])}, up to {age(policy['longest_open'])} if probes fail",
        )
        yield "closes after", plural(policy["successes_to_close"], "successful probe")


def _sentences(breaker: Row) -> Iterator[str]:
    """Describe the effect on work, and who opened or closed it by hand."""
    force, held = breaker["force"], breaker["waiting"]
    if held["number"] == 1:
        yield "1 run is on hold and resumes automatically when the breaker closes."
    elif held["number"]:
        yield f"{counted(held)} runs are on hold and resume automatically when the breaker closes."
    if force is not None:
        by = f" by {force['by']}" if force["by"] else ""
        why = f": {force['reason']}" if force["reason"] else ""
        until = "" if force["until"] is None else f" until {stamp(force['until'])}"
        verb = "Opened" if force["state"] == "OPEN" else "Closed"
        yield f"{verb} by hand{by}{until}{why}."
    elif breaker["state"] == "OPEN" and breaker["open_until"] is not None:
        yield f"The next probe is {soon(breaker['open_until'])}."
    elif breaker["idle"]:
        yield "No run waits for it. The dependency is tried with the next run that needs it."


def soon(moment: str) -> str:
    """Say when the next probe runs: "in 20 s", "on the next call"."""
    return ago(moment) if is_future(moment) else "on the next call"


def _opens(policy: Row) -> str:
    parts = [f"{percent(policy['failure_rate'])} fail"]
    if policy["slow_seconds"] is not None:
        parts.append(f"{percent(policy['slow_rate'])} take {policy['slow_seconds']:g} s or longer")
    window = [] if policy["window_calls"] is None else [f"the last {plural(policy['window_calls'], 'call')}"]
    if policy["window_seconds"] is not None:
        window.append(f"calls in the last {age(policy['window_seconds'])}")
    return f"of {' or '.join(window)}, {' or '.join(parts)} (needs at least {_minimum(policy)})"


def _minimum(policy: Row) -> str:
    enough = policy["minimum_calls"]
    if policy["window_calls"] is None or policy["window_seconds"] is None:
        return f"{enough:,} calls"
    recent, seconds = min(enough, policy["minimum_recent_calls"]), policy["window_seconds"]
    return f"{min(enough, policy['window_calls']):,} calls, or {recent:,} in the last {age(seconds)}"


def _next(breaker: Row) -> Iterator[tuple[str, str]]:
    name = quote(breaker["name"])
    if breaker["force"] is not None:
        yield f"redrive breaker auto {name}", "return it to automatic control"
    elif breaker["state"] != "CLOSED" and not breaker["idle"]:
        until = breaker["open_until"]
        probe = "the next call is a probe" if until is None else f"the next probe is {soon(until)}"
        yield f"redrive breaker view {name}", f"wait: {probe}"
    if breaker["state"] == "OPEN":
        yield f"redrive breaker close {name} --reason …", "release the work now"
    else:
        yield f"redrive breaker open {name} --reason …", "hold the work that needs it"
    if breaker["waiting"]["number"]:
        yield "redrive run list is:held", "runs on hold"


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
