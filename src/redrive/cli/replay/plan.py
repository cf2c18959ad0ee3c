"""`redrive replay plan`: what is to be replayed, frozen, and what that will mean. Nothing is started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from redrive.cli.client import Client, segment
from redrive.cli.confirmation import dry_run_option, report_dry_run
from redrive.cli.connection import api_options
from redrive.cli.listing import JSON, counted
from redrive.cli.output import Row, chosen, output_option, show_fields, show_json
from redrive.cli.replay.options import plan_options
from redrive.cli.replay.words import (
    MODES,
    Consequence,
    careful,
    consequences,
    policy_words,
    promise,
    selected,
)
from redrive.cli.screen import INDENT, aside, facts, heading, headline, next_steps, paragraph, room, wrapped
from redrive.cli.terminal import notice, out, plural, warn
from redrive.cli.times import since

PATH = "/api/v1/operations"
LETTERS = "/api/v1/dead-letters"
FIELDS = (
    "id",
    "state",
    "mode",
    "selected",
    "will_run",
    "waiting",
    "will_not_run",
    "skipped",
    "may_repeat_effects",
    "results_reused",
    "canary",
    "rate",
)
DRIFT = "If one of them changes before the start, nothing is started, and you are told which."


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@plan_options
@dry_run_option
@output_option
@api_options
def plan(
    client: Client, ids: tuple[str, ...], most: int | None, dry_run: bool, output: str | None, **asked: Any
) -> None:
    """Plan a replay of dead letters: by their ids, a query, or a failure group.

    The plan is kept, and says what would run, wait, and not run, and why. `redrive replay start` begins it.

    \b
    redrive replay plan --query is:open --max 100
    redrive replay plan --group 4f0c2d --canary 5 --rate 2
    """
    body = _body(ids, asked)
    if most is not None:
        body = _limited(client, body, most)
    if dry_run:
        report_dry_run(f"plan a replay of {_number(client, body)}", dry_run)
        return
    show_plan(client.post(PATH, body), output)


def show_plan(operation: Row, output: str | None) -> None:
    form = chosen(output)
    if form in JSON:
        show_json(operation, indent=2 if form == "json" else None)
    elif form != "table":
        show_fields(_flat(operation), FIELDS, form)
    else:
        tell_plan(operation)
        if operation["plan"]["will_run"]:
            next_steps([(f"redrive replay start {operation['id']}", "begin it")])
    if not operation["plan"]["selected"]:
        notice(f"{promise(operation['plan'])}, so there is nothing to start: {_hint(operation)}.")


def _hint(operation: Row) -> str:
    query = operation["selection"].get("query")
    if query is None:
        return "`redrive dlq list` shows what is open"
    return f"`redrive dlq list {query}` shows what it finds, is:any also what is closed"


def tell_plan(operation: Row) -> None:
    """For a person."""
    plan = operation["plan"]
    headline(promise(plan), operation["state"])
    reason = f": {operation['reason']}" if operation["reason"] else ""
    aside(
        [
            f"plan {operation['id']}",
            selected(operation),
            MODES[plan["mode"]],
            f"planned {since(operation['planned_at'])} ago by {operation['planned_by']}{reason}",
        ]
    )
    known = list(consequences(plan))
    if known:
        heading("What will happen, if all goes well")
        _tell_consequences(known)
    if plan["will_run"]:
        heading("How carefully")
        for sentence in (*careful(operation["options"], plan["will_run"]), DRIFT):
            paragraph(sentence)
        facts([("retry policy", policy_words(operation["override_retry_policy"]))])


def _tell_consequences(known: Sequence[Consequence]) -> None:
    digits = max(len(f"{each.number:,}") for each in known)
    for number, text, risky in known:
        first, *others = wrapped(text, room() - digits - 2 * INDENT)
        out(f"  {number:>{digits},}  {warn(first) if risky else first}")
        for line in others:
            out(" " * (digits + 2 * INDENT) + line)


def _body(ids: tuple[str, ...], asked: Row) -> Row:
    body = {name: value for name, value in asked.items() if value is not None}
    if body.get("same_failures") == 0:
        body["same_failures"] = None
    if ids:
        _refuse_queries(ids)
        body["ids"] = list(ids)
    if [name in body for name in ("ids", "query", "group")].count(True) != 1:
        raise click.UsageError(
            "Say which dead letters: by their ids, --query or --group, one of these. "
            "`--query is:open` is all that are open."
        )
    return body


def _refuse_queries(ids: tuple[str, ...]) -> None:
    for each in ids:
        if ":" in each and not each.startswith("v1:"):
            raise click.UsageError(f"{each!r} is a query and no id: --query {' '.join(ids)!r}")


def _limited(client: Client, body: Row, most: int) -> Row:
    """The oldest of them, by their ids."""
    if "ids" in body:
        return {**body, "ids": body["ids"][:most]}
    query = _query(client, body)
    ids = [each["id"] for each in client.pages(LETTERS, limit=most, q=query, order="oldest")]
    if not ids:
        return body
    if len(ids) == most:
        found = client.get(f"{LETTERS}/count", q=query)
        if found["number"] > most:
            notice(f"The oldest {most:,} of {counted(found)} are taken.")
    rest = {name: value for name, value in body.items() if name not in ("query", "group")}
    return {**rest, "ids": ids}


def _query(client: Client, body: Row) -> str:
    if "query" in body:
        return str(body["query"])
    found = client.get(f"/api/v1/groups/{segment(body['group'])}")
    return f"is:live fp:{found['fingerprint']}"


def _number(client: Client, body: Row) -> str:
    if "ids" in body:
        return plural(len(body["ids"]), "dead letter")
    found = client.get(f"{LETTERS}/count", q=_query(client, body))
    return "1 dead letter" if found["number"] == 1 else f"{counted(found)} dead letters"


def _flat(operation: Row) -> Row:
    plan = operation["plan"]
    return {
        **plan,
        **operation["options"],
        "id": operation["id"],
        "state": operation["state"],
        "waiting": sum(plan["waits"].values()),
        "will_not_run": sum(plan["refused"].values()),
    }
