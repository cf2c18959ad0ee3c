"""`redrive policy simulate`: compare recorded failures with their result under a changed policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from redrive.cli.connection import open_database, run_on_database
from redrive.cli.options import DURATION, GlobalOptions, output_option, settings_options
from redrive.cli.output import chosen, screen, show_json, show_rows
from redrive.cli.policy.figures import ASSUMPTIONS, HIGH, MEDIAN, STEPS, all_figures, step_figures
from redrive.cli.policy.policies import alteration_options
from redrive.cli.progress import progress
from redrive.cli.table import Row, TableColumn
from redrive.cli.terminal import Part, notice, out
from redrive.model.identity import HOME
from redrive.parts import parts_of
from redrive.policy.policy_change import Alteration
from redrive.policy.presets import preset
from redrive.policy.what_if import Proof
from redrive.words.number import names, plural
from redrive.words.time import duration, machine

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.cli.screen import Line, Screen
    from redrive.failures.what_if import StepName, StepOutcome, WhatIf
    from redrive.policy.comparison import Peak, PolicyComparison, Side

LABEL_WIDTH, NUMBER_WIDTH = 21, 10
MAX_NAMES = 5

PROOFS = {
    Proof.ITSELF: "succeeded in a replay",
    Proof.WORKED_AGAIN: "all runs failed at the time, then others succeeded",
    Proof.OTHERS_RECOVERED: "other runs with the same failure recovered",
}
COLUMNS = (
    TableColumn("place", "step"),
    TableColumn("dependency"),
    TableColumn("failures", short="{:,}".format),
    TableColumn("letters", "dead letters", whole=True),
    TableColumn("tries", "attempts", whole=True),
    TableColumn("peak", "busiest minute", whole=True),
)


@click.command()
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--workflow", metavar="NAME", help="Only failures of this workflow.")
@click.option("--step", metavar="NAME", help="Only failures of steps with this name.")
@click.option("--task", metavar="NAME", help="Only failures of this task.")
@click.option("--queue", metavar="NAME", help="Only failures in this queue.")
@click.option(
    "--since", type=DURATION, default="7d", show_default=True, help="Only runs submitted within this time."
)
@click.option("--org", default=HOME, show_default=True, metavar="NAME", help="Organization.")
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
    """Simulate a changed retry policy on the recorded failures.

    NAME is a preset that replaces the recorded policies. Without it, each step keeps its own policy and the
    options change it: `redrive policy simulate --step charge --attempts 6`. Only reads.

    Attempts are assumed to fail until there is evidence that the step worked again, in the same run or in
    others. A dead letter without such evidence is not counted as avoided.
    """
    if name is not None:
        preset(name)
    alteration = alteration._replace(preset=name)
    if alteration.changes_nothing:
        raise click.UsageError("Pass a preset or an option such as --attempts 6.")

    async def ask(app: Redrive) -> WhatIf:
        from redrive.failures.what_if import FailureSelection, rows_to_read, what_if

        await open_database(app, org)
        wanted = FailureSelection(org, parts_of(app).clock.now() - since, workflow, step, task, queue)
        with progress("Reading attempts", await rows_to_read(parts_of(app).store, wanted)) as advance:
            return await what_if(parts_of(app).store, parts_of(app).definitions, wanted, alteration, advance)

    _show(run_on_database(given, ask), output)


def _show(found: WhatIf, output: str | None) -> None:
    form = chosen(output)
    if form == "json":
        show_json(all_figures(found))
        return
    if not found.runs:
        notice(f"Nothing to simulate: no runs since {machine(found.since)}.")
    elif not found.total.failures:
        left_out = f"; {found.unfinished:,} have not finished or were cancelled" if found.unfinished else ""
        runs = f"{plural(found.runs, 'run')} since {machine(found.since)}"
        notice(f"Nothing to simulate: no matching failures in {runs}{left_out}.")
    if form != "table":
        show_rows((step_figures(*step) for step in found.steps.items()), STEPS, form)
    elif found.total.failures:
        _draw(screen(), found)


def _draw(screen: Screen, found: WhatIf) -> None:
    total = found.total
    screen.paragraph(_scope(found), indent=0)
    out("")
    screen.columns(
        _totals(total),
        heads=("FIGURE", "RECORDED", "CHANGED", "DIFFERENCE"),
        right=(1, 2),
        widths=(LABEL_WIDTH, NUMBER_WIDTH, NUMBER_WIDTH),
        indent=0,
    )
    if total.recorded.dead_letters:
        screen.heading(f"Recorded: {plural(total.recorded.dead_letters, 'dead letter')}")
        screen.columns(_recorded_letters(total), right=(0,))
    if total.made:
        screen.heading(f"New: {plural(total.made, 'dead letter')}")
        screen.columns(_new_letters(total), right=(0,))
    out("")
    if len(found.steps) > 1:
        show_rows((_row(*step) for step in found.steps.items()), COLUMNS, "table")
        out("")
    screen.columns(_policies(found), indent=0)
    out("")
    screen.columns((("·", (assumption, "dim")) for assumption in ASSUMPTIONS), indent=0, gap=1)


def _scope(found: WhatIf) -> str:
    steps = list(found.steps)
    what = plural(found.total.failures, "failure") + (f" of {_name(steps[0])}" if len(steps) == 1 else "")
    text = f"{what} in {plural(found.runs, 'run')} since {machine(found.since)}."
    if found.unfinished:
        text += f" Excluded: {found.unfinished:,} not finished or cancelled."
    if found.unreadable:
        text += f" Excluded: {found.unreadable:,} with an unreadable definition."
    return text


def _totals(total: PolicyComparison) -> Iterator[tuple[Line, ...]]:
    recorded, changed = total.recorded, total.changed
    avoided = sum(total.avoided.values())
    letters: list[Part] = [(f"{avoided:,} avoided", "good")] if avoided else []
    if total.made:
        letters += [", "] if letters else []
        letters.append((f"{total.made:,} new", "bad"))
    more = changed.attempts - recorded.attempts
    share = f"{more:+,} ({more / recorded.attempts:+.1%})" if more else "no change"
    when = "" if changed.busiest is None else f"at {machine(changed.busiest.at)}"
    numbers = f"{recorded.dead_letters:,}", f"{changed.dead_letters:,}"
    yield "dead letters", *numbers, letters or "no change"
    yield "attempts", f"{recorded.attempts:,}", f"{changed.attempts:,}", share
    yield "busiest minute", _peak(recorded.busiest), _peak(changed.busiest), when
    for label, share_of_runs in (("until success, median", MEDIAN), ("until success, p95", HIGH)):
        yield label, _wait(recorded, share_of_runs), _wait(changed, share_of_runs), ""


def _recorded_letters(total: PolicyComparison) -> Iterator[tuple[str, str, str]]:
    unknown = f"no evidence that the step worked again; not counted as avoided{_hope(total, 'unknown')}"
    for number, word, text in (
        *((total.avoided[proof], "avoided", text) for proof, text in PROOFS.items()),
        (
            total.too_early,
            "too early",
            "the first evidence that the step worked comes after the last attempt",
        ),
        (total.final, "final", "retrying won't help with this error"),
        (total.unknown, "unknown", unknown),
    ):
        if number:
            yield f"{number:,}", word, text


def _new_letters(total: PolicyComparison) -> Iterator[tuple[str, str, str]]:
    if sure := total.made - total.unsure:
        yield f"{sure:,}", "sure", "a later retry succeeded, but the changed policy gives up before it"
    if total.unsure:
        text = "the changed policy gives up at a time without evidence that the step worked"
        yield f"{total.unsure:,}", "unsure", text + _hope(total, "unsure")


def _hope(total: PolicyComparison, what: str) -> str:
    if round(total.hoped_for[what]) == 0:
        return ""
    return f" (about {total.hoped_for[what]:,.0f} would succeed at the rate of other retries)"


def _policies(found: WhatIf) -> Iterator[tuple[str, str]]:
    """Yield each change of policy once, with the steps that it affects."""
    changes: dict[tuple[str, str], list[str]] = {}
    for name, outcome in found.steps.items():
        recorded, changed = (
            f"{schedule.max_attempts} attempts, {schedule.formula}"
            for schedule in (outcome.recorded.explain(), outcome.changed.explain())
        )
        changes.setdefault((recorded, changed), []).append(_name(name))
    for (recorded, changed), steps in changes.items():
        yield "recorded", recorded
        yield "changed", changed
        if len(changes) > 1:
            yield "steps", names(steps, MAX_NAMES)


def _row(name: StepName, outcome: StepOutcome) -> Row:
    comparison = outcome.comparison
    recorded, changed = comparison.recorded, comparison.changed
    return {
        "place": _name(name),
        "dependency": outcome.dependency,
        "failures": comparison.failures,
        "letters": f"{recorded.dead_letters:,} → {changed.dead_letters:,}",
        "tries": f"{recorded.attempts:,} → {changed.attempts:,}",
        "peak": f"{_peak(recorded.busiest)} → {_peak(changed.busiest)}",
    }


def _name(name: StepName) -> str:
    return name.step if name.workflow == name.step else f"{name.workflow}.{name.step}"


def _peak(peak: Peak | None) -> str:
    return "-" if peak is None else f"{peak.attempts:,}"


def _wait(side: Side, share: float) -> str:
    seconds = side.waited(share)
    return "-" if seconds is None else duration(seconds)
