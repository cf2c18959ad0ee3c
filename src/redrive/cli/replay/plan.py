"""`redrive replay plan`: fix the selection of a replay and show what it will do, without starting it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from redrive.cli.checks import report_dry_run
from redrive.cli.client import Client, segment
from redrive.cli.connection import api_options
from redrive.cli.options import dry_run_option, output_option
from redrive.cli.output import show_one
from redrive.cli.replay.operation import (
    PATH,
    mode_text,
    policy_text,
    rollout_sentences,
    selection_text,
)
from redrive.cli.replay.options import plan_options
from redrive.cli.table import Row, counted, since
from redrive.cli.terminal import Part, notice, styled_status
from redrive.words.number import noun, plural

if TYPE_CHECKING:
    from redrive.cli.screen import Screen

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
DRIFT = (
    "If a dead letter changes before the start, nothing starts, and `redrive replay start` lists the changes."
)


@click.command()
@click.argument("ids", nargs=-1, metavar="[ID]...")
@plan_options
@dry_run_option
@output_option
@api_options
def plan(
    client: Client,
    ids: tuple[str, ...],
    maximum: int | None,
    dry_run: bool,
    output: str | None,
    **options: Any,
) -> None:
    """Plan a replay: what will run, wait or be refused.

    Select the dead letters by ids, a query or a failure group. The plan shows what will happen to each of
    them, and why. Start it with `redrive replay start`.

    \b
    redrive replay plan --query is:open --max 100
    redrive replay plan --group 4f0c2d --canary 5 --rate 2
    """
    body = _body(ids, options)
    if maximum is not None:
        body = _limited(client, body, maximum)
    if not dry_run:
        show_plan(client.post(PATH, body), output)
        return
    if "ids" in body:
        number = plural(len(body["ids"]), "dead letter")
    else:
        found = client.get(f"{LETTERS}/count", q=_query(client, body))
        number = "1 dead letter" if found["number"] == 1 else f"{counted(found)} dead letters"
    report_dry_run(f"plan a replay of {number}", dry_run)


def show_plan(operation: Row, output: str | None) -> None:
    plan = operation["plan"]
    show_one(operation, FIELDS, output, lambda screen: _draw(screen, operation), flat=_flat)
    if not plan["selected"]:
        query = operation["selection"].get("query")
        if query is None:
            hint = "List open dead letters with `redrive dlq list`."
        else:
            hint = f"Check the query with `redrive dlq list {query}`; add is:any to include closed ones."
        notice(f"{_summary(plan)}; there is nothing to start. {hint}")


def _draw(screen: Screen, operation: Row) -> None:
    plan = operation["plan"]
    screen.headline(_summary(plan), styled_status(operation))
    reason = f": {operation['reason']}" if operation["reason"] else ""
    screen.aside(
        [
            f"plan {operation['id']}",
            selection_text(operation),
            mode_text(plan["mode"]),
            f"planned {since(operation['planned_at'])} ago by {operation['planned_by']}{reason}",
        ]
    )
    if known := list(_consequences(plan)):
        screen.heading("What will happen if everything succeeds")
        screen.columns(((f"{number:,}", text) for number, text in known), right=(0,))
    if plan["will_run"]:
        screen.heading("Rollout")
        for sentence in (*rollout_sentences(operation), DRIFT):
            screen.paragraph(sentence)
        screen.facts([("retry policy", policy_text(operation))])
        screen.next_steps([(f"redrive replay start {operation['id']}", "start it")])


def _summary(plan: Row) -> str:
    """Summarize the plan in one sentence, without a full stop."""
    if not plan["selected"]:
        return "No dead letters are selected"
    if not plan["will_run"]:
        return f"None of {plural(plan['selected'], 'dead letter')} can be replayed"
    if plan["selected"] == 1:
        return "1 dead letter will be replayed"
    return f"{plan['will_run']:,} of {plural(plan['selected'], 'dead letter')} will be replayed"


def _consequences(plan: Row) -> Iterator[tuple[int, Part]]:
    """Yield what will happen and how often; consider the parts in the style "warn" before the start."""
    for step, number in plan["steps"].items():
        yield number, f"{noun(number, 'execution')} of {step}"
    if reused := plan["results_reused"]:
        one, many = "result of an earlier step is reused", "results of earlier steps are reused"
        yield reused, noun(reused, one, many)
    if unsafe := plan["may_repeat_effects"]:
        yield unsafe, ("may repeat a side effect that is not safe to repeat", "warn")
    if keyed := plan["repeat_under_key"]:
        yield (
            keyed,
            "may repeat a side effect with the same idempotency key; safe if the receiver honors it",
        )
    for wait in plan["waits"]:
        yield wait["items"], f"{noun(wait['items'], 'waits', 'wait')} for {wait['text']}"
    if plan["skipped"]:
        yield plan["skipped"], "skipped: may repeat a side effect that is not safe to repeat"
    for refusal in plan["refused"]:
        yield refusal["items"], f"will not run: {refusal['text']}"


def _body(ids: tuple[str, ...], options: Row) -> Row:
    body = {name: value for name, value in options.items() if value is not None}
    if "status" in body and "query" in body:
        raise click.UsageError("Pass --query or --status, not both.")
    if "status" in body:
        body["query"] = f"is:{body.pop('status')}"
    if body.get("same_failures") == 0:
        body["same_failures"] = None
    if ids:
        for argument in ids:
            if ":" in argument and not argument.startswith("v1:"):
                raise click.UsageError(f"{argument!r} is a query, not an id; use --query {' '.join(ids)!r}")
        body["ids"] = list(ids)
    if [name in body for name in ("ids", "query", "group")].count(True) != 1:
        raise click.UsageError(
            "Pass dead-letter ids, --query or --group. For all open dead letters, use `--query is:open`."
        )
    return body


def _limited(client: Client, body: Row, maximum: int) -> Row:
    """Replace a query or a group with the ids of its oldest dead letters."""
    if "ids" in body:
        return {**body, "ids": body["ids"][:maximum]}
    query = _query(client, body)
    ids = [letter["id"] for letter in client.pages(LETTERS, limit=maximum, q=query, order="oldest")]
    if not ids:
        return body
    if len(ids) == maximum:
        found = client.get(f"{LETTERS}/count", q=query)
        if found["number"] > maximum:
            notice(f"Selected the oldest {maximum:,} of {counted(found)}.")
    rest = {name: value for name, value in body.items() if name not in ("query", "group")}
    return {**rest, "ids": ids}


def _query(client: Client, body: Row) -> str:
    if "query" in body:
        return str(body["query"])
    found = client.get(f"/api/v1/groups/{segment(body['group'])}")
    return f"is:live fp:{found['fingerprint']}"


def _flat(operation: Row) -> Row:
    plan = operation["plan"]
    return {
        **plan,
        **operation["options"],
        "id": operation["id"],
        "state": operation["state"],
        "waiting": sum(wait["items"] for wait in plan["waits"]),
        "will_not_run": sum(refusal["items"] for refusal in plan["refused"]),
    }
