"""`redrive replay plan`: what is to be replayed, frozen, and what that will mean. Nothing is started."""

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
    refusal_text,
    rollout_sentences,
    selection_text,
)
from redrive.cli.replay.options import plan_options
from redrive.cli.table import Row, counted, since
from redrive.cli.terminal import Part, notice, styled_state
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
            hint = "`redrive dlq list` shows what is open"
        else:
            hint = f"`redrive dlq list {query}` shows what it finds, is:any also what is closed"
        notice(f"{_summary(plan)}, so there is nothing to start: {hint}.")


def _draw(screen: Screen, operation: Row) -> None:
    plan = operation["plan"]
    screen.headline(_summary(plan), styled_state(operation["state"]))
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
        screen.heading("What will happen, if all goes well")
        screen.columns(((f"{number:,}", text) for number, text in known), right=(0,))
    if plan["will_run"]:
        screen.heading("How carefully")
        for sentence in (*rollout_sentences(operation), DRIFT):
            screen.paragraph(sentence)
        screen.facts([("retry policy", policy_text(operation))])
        screen.next_steps([(f"redrive replay start {operation['id']}", "begin it")])


def _summary(plan: Row) -> str:
    """What a plan comes to, in one sentence."""
    if not plan["selected"]:
        return "No dead letter is selected"
    if not plan["will_run"]:
        return f"Nothing of {plural(plan['selected'], 'dead letter')} can be replayed"
    if plan["selected"] == 1:
        return "1 dead letter will be replayed"
    return f"{plan['will_run']:,} of {plural(plan['selected'], 'dead letter')} will be replayed"


def _consequences(plan: Row) -> Iterator[tuple[int, Part]]:
    """What will happen, each with how often; a warning is something to think about first."""
    for step, number in plan["steps"].items():
        yield number, f"{noun(number, 'execution')} of {step}"
    if reused := plan["results_reused"]:
        one, many = "result of an earlier step is reused", "results of earlier steps are reused"
        yield reused, noun(reused, one, many)
    if unsafe := plan["may_repeat_effects"]:
        yield unsafe, ("may repeat an effect that is not safe to repeat", "warn")
    if keyed := plan["repeat_under_key"]:
        yield (
            keyed,
            "may repeat an effect under its idempotency key: harmless where the receiver heeds it",
        )
    for what, number in plan["waits"].items():
        yield number, f"{noun(number, 'waits', 'wait')} for the {what}"
    if plan["skipped"]:
        yield plan["skipped"], "left out: it may have had an effect that is not safe to repeat"
    for why, number in plan["refused"].items():
        yield number, f"will not run: {refusal_text(why)}"


def _body(ids: tuple[str, ...], asked: Row) -> Row:
    body = {name: value for name, value in asked.items() if value is not None}
    if body.get("same_failures") == 0:
        body["same_failures"] = None
    if ids:
        for argument in ids:
            if ":" in argument and not argument.startswith("v1:"):
                raise click.UsageError(f"{argument!r} is a query and no id: --query {' '.join(ids)!r}")
        body["ids"] = list(ids)
    if [name in body for name in ("ids", "query", "group")].count(True) != 1:
        raise click.UsageError(
            "Say which dead letters: by their ids, --query or --group, one of these. "
            "`--query is:open` is all that are open."
        )
    return body


def _limited(client: Client, body: Row, most: int) -> Row:
    """Replace a query or a group by the ids of its oldest dead letters."""
    if "ids" in body:
        return {**body, "ids": body["ids"][:most]}
    query = _query(client, body)
    ids = [letter["id"] for letter in client.pages(LETTERS, limit=most, q=query, order="oldest")]
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
