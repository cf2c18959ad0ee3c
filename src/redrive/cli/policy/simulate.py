"""`redrive policy simulate`: a changed policy against the recorded attempts of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from redrive.cli.options import GlobalOptions, settings_options
from redrive.cli.output import output_option
from redrive.cli.parameters import DURATION
from redrive.cli.policy.options import alteration_options
from redrive.cli.policy.policies import on_database
from redrive.cli.progress import progress
from redrive.cli.terminal import instant
from redrive.failures.what_if import StepName, StepOutcome, WhatIf
from redrive.model.identity import HOME
from redrive.policy.alteration import Alteration, preset
from redrive.policy.comparison import Peak, PolicyComparison, Side
from redrive.policy.stored import policy_to_json
from redrive.policy.what_if import Proof

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.failures.what_if import WhatIf


@click.command()
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--workflow", metavar="NAME", help="Only failures of this workflow.")
@click.option("--step", metavar="NAME", help="Only failures of steps of this name.")
@click.option("--task", metavar="NAME", help="Only failures of this task.")
@click.option("--queue", metavar="NAME", help="Only failures in this queue.")
@click.option(
    "--since", type=DURATION, default="7d", show_default=True, help="Runs that were started no longer ago."
)
@click.option("--org", default=HOME, show_default=True, metavar="NAME", help="Whose runs.")
@alteration_options
@output_option
@settings_options
@click.pass_obj
def simulate(
    given: GlobalOptions,
    name: str | None,
    workflow: str | None,
    step: str | None,
    task: str | None,
    queue: str | None,
    since: float,
    org: str,
    alteration: Alteration,
    output: str | None,
) -> None:
    """Tell what would have become of everything that failed, under a changed policy.

    NAME is a preset to take the place of the recorded policies; without it, each step keeps its own, and the
    options change it: `redrive policy simulate --step charge --attempts 6`. Nothing is written.

    An attempt is taken to succeed from the first sign on that the step worked again: itself, or for others.
    Without a sign it is counted as not avoided.
    """
    if name is not None:
        preset(name)
    alteration = alteration._replace(preset=name)
    if alteration.changes_nothing:
        raise click.UsageError("Say what to change: a preset, or an option such as --attempts 6.")

    async def ask(app: Redrive) -> WhatIf:
        from redrive.failures.what_if import FailureSelection, rows_to_read, what_if

        wanted = FailureSelection(org, app.clock.now() - since, workflow, step, task, queue)
        with progress("Reading attempts", await rows_to_read(app.store, wanted)) as tell:
            return await what_if(app.store, app.definitions, wanted, alteration, tell)

    from redrive.cli.policy.report import show

    show(on_database(given, org, ask), output)


MEDIAN, HIGH = 0.5, 0.95

ASSUMPTIONS = (
    "An attempt is taken to succeed from the first sign on that the step worked, and to fail before.",
    "What lies in between, of which nobody knows, is taken to fail: shorter waits look worse than they are.",
    "What others show may not hold for work that fails by its own payload: where few runs lie close "
    "together, such work is counted as avoided, wrongly.",
    "More attempts may keep a struggling dependency down for longer; that is not in these figures.",
    "Further waits take the middle of their jitter; time under an open breaker is as it was.",
)
STEPS = (
    *(
        "workflow",
        "step",
        "dependency",
        "failures",
        "dead_letters",
        "dead_letters_changed",
        "avoided",
        "made",
    ),
    *("unknown", "attempts", "attempts_changed", "busiest_minute", "busiest_minute_changed"),
)


def flat(name: StepName, outcome: StepOutcome) -> dict[str, Any]:
    comparison = outcome.comparison
    recorded, changed = comparison.recorded, comparison.changed
    return {
        "workflow": name.workflow,
        "step": name.step,
        "dependency": outcome.dependency,
        "failures": comparison.failures,
        "dead_letters": recorded.dead_letters,
        "dead_letters_changed": changed.dead_letters,
        "avoided": sum(comparison.avoided.values()),
        "made": comparison.made,
        "unknown": comparison.unknown,
        "attempts": recorded.attempts,
        "attempts_changed": changed.attempts,
        "busiest_minute": recorded.busiest.attempts if recorded.busiest else 0,
        "busiest_minute_changed": changed.busiest.attempts if changed.busiest else 0,
    }


def as_json(found: WhatIf) -> dict[str, Any]:
    return {
        "since": instant(found.since),
        "runs": found.runs,
        "attempts_read": found.attempts,
        "left_out": {"under_way": found.under_way, "unreadable": found.unreadable},
        **_compared(found.total),
        "steps": [_step(name, outcome) for name, outcome in found.steps.items()],
        "assumptions": list(ASSUMPTIONS),
    }


def _step(name: StepName, outcome: StepOutcome) -> dict[str, Any]:
    return {
        **name._asdict(),
        "task": outcome.task,
        "dependency": outcome.dependency,
        **_compared(outcome.comparison),
        "policy": {
            "recorded": policy_to_json(outcome.recorded),
            "changed": policy_to_json(outcome.changed),
        },
    }


def _compared(comparison: PolicyComparison) -> dict[str, Any]:
    recorded, changed = comparison.recorded, comparison.changed
    return {
        "failures": comparison.failures,
        "dead_letters": {
            "recorded": recorded.dead_letters,
            "changed": changed.dead_letters,
            "avoided": sum(comparison.avoided.values()),
            "avoided_by": {proof.value: comparison.avoided[proof] for proof in Proof},
            "made": comparison.made,
            "made_unsure": comparison.unsure,
            "too_early": comparison.too_early,
            "final": comparison.final,
            "unknown": comparison.unknown,
            "hoped_for": {each: round(comparison.hoped_for[each], 1) for each in ("unknown", "unsure")},
        },
        "attempts": {"recorded": recorded.attempts, "changed": changed.attempts},
        "busiest_minute": {"recorded": _moment(recorded.busiest), "changed": _moment(changed.busiest)},
        "seconds_until_success": {"recorded": _waits(recorded), "changed": _waits(changed)},
    }


def _moment(peak: Peak | None) -> dict[str, Any] | None:
    return None if peak is None else {"at": instant(peak.at), "attempts": peak.attempts}


def _waits(side: Side) -> dict[str, float | None]:
    return {"median": _rounded(side.waited(MEDIAN)), "p95": _rounded(side.waited(HIGH))}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
