"""`redrive policy explain`: when each attempt starts, and what becomes of each kind of error."""

from __future__ import annotations

from collections.abc import Iterator

import click

from redrive.cli.options import SECONDS, GlobalOptions, output_option, settings_options
from redrive.cli.output import chosen, show_json, show_rows
from redrive.cli.policy.policies import alteration_options, of_application, of_database, of_work
from redrive.cli.table import Row, TableColumn
from redrive.cli.terminal import out
from redrive.errors import InvalidValueError
from redrive.model.identity import HOME
from redrive.policy.description import ENDINGS, CategoryConsequence, consequences
from redrive.policy.policy_change import Alteration
from redrive.policy.policy_json import policy_to_json
from redrive.policy.presets import preset
from redrive.policy.retry import RetryPolicy
from redrive.policy.schedule import ScheduledAttempt
from redrive.words.time import duration

ATTEMPTS = (
    *("policy", "used_by", "attempt", "wait_least", "wait", "wait_most"),
    *("start_least", "start", "start_most", "within_deadline"),
)
ERRORS = (TableColumn("category", "error"), "retried", TableColumn("at_most"), "waits")


@click.command()
@click.argument("name", required=False, metavar="[NAME | MODULE:ATTRIBUTE]")
@click.option("--work", metavar="NAME", help="The policies of a task, a workflow, or WORKFLOW.STEP.")
@click.option(
    "--org", default=HOME, show_default=True, metavar="NAME", help="Whose runs --work is looked for in."
)
@alteration_options
@click.option("--deadline", type=SECONDS, help="No attempt starts later than that after the first failure.")
@output_option
@settings_options
@click.pass_obj
def explain(
    given: GlobalOptions,
    name: str | None,
    work: str | None,
    org: str,
    alteration: Alteration,
    deadline: float | None,
    output: str | None,
) -> None:
    """Explain a policy: every attempt with its waits, and what becomes of each kind of error.

    NAME is that of a preset: see `redrive policy list`. With MODULE:ATTRIBUTE, those of your application;
    with --work alone, those of runs in the database. With neither, the one that the settings give to tasks
    that name none. The options change it before it is explained.
    """
    policies = [(alteration.of(policy), used_by) for policy, used_by in _policies(given, name, work, org)]
    form = chosen(output)
    if form == "json":
        show_json([_json(policy, used_by, deadline) for policy, used_by in policies])
    elif form == "table":
        for number, (policy, used_by) in enumerate(policies):
            out("\n" * bool(number), end="")
            _draw(policy, used_by, deadline)
    else:
        rows = (row for policy, used_by in policies for row in _rows(policy, used_by, deadline))
        show_rows(rows, ATTEMPTS, form)


def _policies(
    given: GlobalOptions, name: str | None, work: str | None, org: str
) -> list[tuple[RetryPolicy, str | None]]:
    """The policies, and which step uses each; None for a policy that was named."""
    if name is not None and ":" in name:
        used = of_work(of_application(name), work, name)
    elif work is not None:
        if name is not None:
            raise click.UsageError("Give the name of a policy or --work, not both.")
        used = of_work(of_database(given, org), work, "the database")
    else:
        return [(given.settings().retry_policy if name is None else preset(name), None)]
    return [(step.policy, step.name) for step in used]


def _draw(policy: RetryPolicy, used_by: str | None, deadline: float | None) -> None:
    if used_by is not None:
        out((used_by, "bold"))
    out(str(policy.explain()))
    if deadline is not None:
        out(f"\n{_cut(policy, deadline)}")
    out("")
    found = consequences(policy)
    show_rows([_error(consequence, policy) for consequence in found], ERRORS, "table")
    for consequence in found:
        if consequence.note:
            out(f"{consequence.category}: {consequence.note}.")
    out(f"When nothing more is tried, {ENDINGS[policy.ending]}.")


def _error(consequence: CategoryConsequence, policy: RetryPolicy) -> Row:
    retries, own = consequence.retries, consequence.category in policy.backoff_by_category
    at_most = None
    if consequence.retried and retries is not None:
        at_most = "once" if retries == 1 else f"{retries:,} times"
    return {
        "category": consequence.category.value,
        "retried": consequence.retried,
        "at_most": at_most,
        "waits": (consequence.waits if own else "as above") if consequence.waits else None,
    }


def _cut(policy: RetryPolicy, deadline: float) -> str:
    """The time that attempts take themselves comes on top of their starts."""
    within = [_within(attempt, deadline) for attempt in policy.explain().attempts]
    sure, possible = within.count("yes"), within.count("yes") + within.count("maybe")
    after = f"With a deadline of {duration(deadline)}"
    if sure == len(within):
        return f"{after}, all {sure:,} attempts can start."
    if sure == possible:
        return f"{after}, {sure:,} of {len(within):,} attempts can start."
    return f"{after}, {sure:,} of {len(within):,} attempts can start, by luck of the jitter {possible:,}."


def _within(attempt: ScheduledAttempt, deadline: float) -> str:
    earliest, _, latest = attempt.start
    return "yes" if latest <= deadline else "maybe" if earliest <= deadline else "no"


def _rows(policy: RetryPolicy, used_by: str | None, deadline: float | None) -> Iterator[Row]:
    for attempt in policy.explain().attempts:
        numbers = [round(seconds, 6) for seconds in (*attempt.wait, *attempt.start)]
        within = None if deadline is None else _within(attempt, deadline)
        values = (policy.name, used_by, attempt.number, *numbers, within)
        yield dict(zip(ATTEMPTS, values, strict=True))


def _json(policy: RetryPolicy, used_by: str | None, deadline: float | None) -> Row:
    """Every attempt, every category, and the stored form of the policy."""
    schedule = policy.explain()
    try:
        stored = dict(policy_to_json(policy))
    except InvalidValueError:  # it has a function in it
        stored = None
    return {
        "policy": schedule.name,
        "used_by": used_by,
        "max_attempts": schedule.max_attempts,
        "waits": schedule.formula,
        "deadline": deadline,
        "attempts": [
            {name: row[name] for name in ATTEMPTS if name not in ("policy", "used_by")}
            for row in _rows(policy, used_by, deadline)
        ],
        "errors": [consequence._asdict() for consequence in consequences(policy)],
        "max_rate_limit_waits": policy.max_rate_limit_waits,
        "when_exhausted": policy.ending.value,
        "stored": stored,
    }
