"""`redrive policy explain`: show when each attempt starts and which errors are retried."""

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
@click.option("--work", metavar="NAME", help="Explain the policies of a task, a workflow, or WORKFLOW.STEP.")
@click.option("--org", default=HOME, show_default=True, metavar="NAME", help="Organization for --work.")
@alteration_options
@click.option("--deadline", type=SECONDS, help="Start no attempt later than this after the first failure.")
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
    """Explain a retry policy: its waits, and what it retries.

    NAME is a preset (see `redrive policy list`). MODULE:ATTRIBUTE explains the policies of your application,
    and --work alone those of runs in the database. Without any of these, explains the default policy of the
    settings. The other options change the policy before it is explained.
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
    """Return the policies and the step that uses each; None for a preset or the default policy."""
    if name is not None and ":" in name:
        used = of_work(of_application(name), work, name)
    elif work is not None:
        if name is not None:
            raise click.UsageError("Pass either a policy name or --work.")
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
    out(f"When no retries are left, {ENDINGS[policy.ending]}.")


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
    """Say how many attempts can start before the deadline, if attempts take no time themselves."""
    within = [_within(attempt, deadline) for attempt in policy.explain().attempts]
    sure, possible = within.count("yes"), within.count("yes") + within.count("maybe")
    after = f"With a deadline of {duration(deadline)}"
    if sure == len(within):
        return f"{after}, all {sure:,} attempts can start."
    if sure == possible:
        return f"{after}, {sure:,} of {len(within):,} attempts can start."
    return (
        f"{after}, {sure:,} of {len(within):,} attempts can start; depending on jitter, up to {possible:,}."
    )


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
    """Return the attempts, the error categories and the stored form of the policy."""
    schedule = policy.explain()
    try:
        stored = dict(policy_to_json(policy))
    except InvalidValueError:  # it contains a function
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
