"""The report of a simulated policy: what was, beside what would have been, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from redrive.cli.output import Row, TableColumn, chosen, screen, show_json, show_rows
from redrive.cli.policy.figures import ASSUMPTIONS, HIGH, MEDIAN, STEPS, all_figures, step_figures
from redrive.cli.terminal import Part, notice, out
from redrive.failures.what_if import StepName, StepOutcome, WhatIf
from redrive.policy.comparison import Peak, PolicyComparison, Side
from redrive.policy.what_if import Proof
from redrive.words.number import names, plural
from redrive.words.time import duration, machine

if TYPE_CHECKING:
    from redrive.cli.screen import Line, Screen

LABEL_WIDTH, NUMBER_WIDTH = 21, 10
MAX_NAMES = 5

PROOFS = {
    Proof.ITSELF: "succeeded in a replay",
    Proof.WORKED_AGAIN: "nobody got through, then others did",
    Proof.OTHERS_RECOVERED: "others that failed alike recovered",
}
COLUMNS = (
    TableColumn("place", "step"),
    TableColumn("dependency"),
    TableColumn("failures", short="{:,}".format),
    TableColumn("letters", "dead letters", whole=True),
    TableColumn("tries", "attempts", whole=True),
    TableColumn("peak", "busiest", whole=True),
)


def show_report(found: WhatIf, output: str | None) -> None:
    form = chosen(output)
    if form == "json":
        show_json(all_figures(found))
        return
    if not found.total.failures:
        notice(_nothing(found))
    if form != "table":
        show_rows((step_figures(*step) for step in found.steps.items()), STEPS, form)
    elif found.total.failures:
        _draw(screen(), found)


def _nothing(found: WhatIf) -> str:
    since = machine(found.since)
    if not found.runs:
        return f"There are no runs since {since}: nothing to simulate."
    left = f", apart from {found.under_way:,} still under way" if found.under_way else ""
    return f"Nothing of that has failed in the {found.runs:,} runs since {since}{left}: nothing to simulate."


def _draw(screen: Screen, found: WhatIf) -> None:
    total = found.total
    screen.paragraph(_scope(found), indent=0)
    out("")
    screen.columns(
        _totals(total),
        heads=("", "recorded", "changed", ""),
        right=(1, 2),
        widths=(LABEL_WIDTH, NUMBER_WIDTH, NUMBER_WIDTH),
        indent=0,
    )
    if total.recorded.dead_letters:
        screen.heading(f"Of {plural(total.recorded.dead_letters, 'dead letter')}")
        screen.columns(_recorded_letters(total), right=(0,))
    if total.made:
        screen.heading(plural(total.made, "new dead letter"))
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
    if found.under_way:
        text += f" Left out: {found.under_way:,} that have not ended, or were cancelled."
    if found.unreadable:
        text += f" Left out: {found.unreadable:,} whose definition cannot be read."
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
    unknown = f"nothing shows when it worked; counted as not avoided{_hope(total, 'unknown')}"
    for number, word, text in (
        *((total.avoided[proof], "avoided", text) for proof, text in PROOFS.items()),
        (total.too_early, "too early", "the first sign that it worked comes after the last attempt"),
        (total.final, "final", "trying again cannot help against the error"),
        (total.unknown, "unknown", unknown),
    ):
        if number:
            yield f"{number:,}", word, text


def _new_letters(total: PolicyComparison) -> Iterator[tuple[str, str, str]]:
    if sure := total.made - total.unsure:
        yield f"{sure:,}", "sure", "it succeeded then, and would be given up while it failed"
    if total.unsure:
        text = "it would be given up where nobody knows whether it worked already"
        yield f"{total.unsure:,}", "unsure", text + _hope(total, "unsure")


def _hope(total: PolicyComparison, what: str) -> str:
    if round(total.hoped_for[what]) == 0:
        return ""
    return f" (about {total.hoped_for[what]:,.0f} would succeed, if they went as other retries did)"


def _policies(found: WhatIf) -> Iterator[tuple[str, str]]:
    """Each change once, with the steps that it is about."""
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
            yield "of", names(steps, MAX_NAMES)


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
