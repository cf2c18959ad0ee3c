"""The report of a simulated policy: what was, beside what would have been, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Any

from redrive.cli.output import Column, chosen, show_json, show_rows, terminal_width
from redrive.cli.policy.simulate import ASSUMPTIONS, HIGH, MEDIAN, STEPS, as_json, flat
from redrive.cli.terminal import bad, bold, dim, good, instant, notice, out
from redrive.failures.what_if import StepName, StepOutcome, WhatIf
from redrive.policy.comparison import Peak, PolicyComparison, Side
from redrive.policy.what_if import Proof
from redrive.words.duration import duration

LABEL, NUMBER, PART = 22, 12, 8

PROOFS = {
    Proof.ITSELF: "succeeded in a replay",
    Proof.WORKED_AGAIN: "nobody got through, then others did",
    Proof.OTHERS_RECOVERED: "others that failed alike recovered",
}
SHOWN = (
    Column("place", "step"),
    Column("dependency"),
    Column("failures", short=lambda number: f"{number:,}"),
    Column("letters", "dead letters", whole=True),
    Column("tries", "attempts", whole=True),
    Column("peak", "busiest", whole=True),
)


def show(found: WhatIf, output: str | None) -> None:
    output = chosen(output)
    if output == "json":
        show_json(as_json(found))
        return
    if not found.total.failures:
        notice(_nothing(found))
    if output != "table":
        show_rows((flat(*each) for each in found.steps.items()), STEPS, output)
    elif found.total.failures:
        _show(found)


def _nothing(found: WhatIf) -> str:
    since = instant(found.since)
    if not found.runs:
        return f"There are no runs since {since}: nothing to simulate."
    left = f", apart from {found.under_way:,} still under way" if found.under_way else ""
    return f"Nothing of that has failed in the {found.runs:,} runs since {since}{left}: nothing to simulate."


def _show(found: WhatIf) -> None:
    total = found.total
    for line in wrap(_looked_at(found), _room()):
        out(line)
    out("")
    out(bold(f"{'':{LABEL}}{'recorded':>{NUMBER}}{'changed':>{NUMBER}}"))
    for line in _figures(total):
        out(line)
    if total.recorded.dead_letters:
        _show_letters(total)
    if total.made:
        _show_new(total)
    out("")
    if len(found.steps) > 1:
        show_rows((_shown(*each) for each in found.steps.items()), SHOWN, "table")
        out("")
    _show_policies(found)
    out("")
    for assumption in ASSUMPTIONS:
        for line in wrap(assumption, _room(), initial_indent="· ", subsequent_indent="  "):
            out(dim(line))


def _looked_at(found: WhatIf) -> str:
    [*names] = map(_name, found.steps)
    what = _count(found.total.failures, "failure") + (f" of {names[0]}" if len(names) == 1 else "")
    text = f"{what} in {_count(found.runs, 'run')} since {instant(found.since)}."
    if found.under_way:
        text += f" Left out: {found.under_way:,} that have not ended, or were cancelled."
    if found.unreadable:
        text += f" Left out: {found.unreadable:,} whose definition cannot be read."
    return text


def _figures(total: PolicyComparison) -> Iterator[str]:
    recorded, changed = total.recorded, total.changed
    avoided = sum(total.avoided.values())
    letters = ", ".join(
        part
        for part in (
            good(f"{avoided:,} avoided") if avoided else "",
            bad(f"{total.made:,} new") if total.made else "",
        )
        if part
    )
    yield _line(
        "dead letters", f"{recorded.dead_letters:,}", f"{changed.dead_letters:,}", letters or "no change"
    )
    yield _line("attempts", f"{recorded.attempts:,}", f"{changed.attempts:,}", _more(recorded, changed))
    yield _line("busiest minute", _peak(recorded.busiest), _peak(changed.busiest), _when(changed.busiest))
    for label, share in (("until success, median", MEDIAN), ("until success, p95", HIGH)):
        yield _line(label, _duration(recorded.waited(share)), _duration(changed.waited(share)))


def _line(label: str, recorded: str, changed: str, note: str = "") -> str:
    return f"{label:{LABEL}}{recorded:>{NUMBER}}{changed:>{NUMBER}}{'  ' * bool(note)}{note}"


def _show_letters(total: PolicyComparison) -> None:
    out(bold(f"\nOf {_count(total.recorded.dead_letters, 'dead letter')}"))
    unknown = f"nothing shows when it worked; counted as not avoided{_hope(total, 'unknown')}"
    for number, word, text in (
        *((total.avoided[proof], "avoided", text) for proof, text in PROOFS.items()),
        (total.too_early, "too early", "the first sign that it worked comes after the last attempt"),
        (total.final, "final", "trying again cannot help against the error"),
        (total.unknown, "unknown", unknown),
    ):
        _show_part(number, word, text)


def _show_new(total: PolicyComparison) -> None:
    out(bold(f"\n{_count(total.made, 'new dead letter')}"))
    _show_part(total.made - total.unsure, "sure", "it succeeded then, and would be given up while it failed")
    text = "it would be given up where nobody knows whether it worked already"
    _show_part(total.unsure, "unsure", text + _hope(total, "unsure"))


def _show_part(number: int, word: str, text: str) -> None:
    if not number:
        return
    start = f"{number:>{PART},}  {word:9}  "
    for place, line in enumerate(wrap(text, _room() - len(start))):
        out(f"{'' if place else start:{len(start)}}{line}")


def _hope(total: PolicyComparison, what: str) -> str:
    if round(total.hoped_for[what]) == 0:
        return ""
    return f" (about {total.hoped_for[what]:,.0f} would succeed, if they went as other retries did)"


def _show_policies(found: WhatIf) -> None:
    """Each change once, with the steps that it is about."""
    changes: dict[tuple[str, str], list[str]] = {}
    for name, outcome in found.steps.items():
        pair = (outcome.recorded.explain(), outcome.changed.explain())
        texts = [f"{each.max_attempts} attempts, {each.formula}" for each in pair]
        changes.setdefault((texts[0], texts[1]), []).append(_name(name))
    for (recorded, changed), names in changes.items():
        listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        for word, text in (("recorded", recorded), ("changed", changed), ("of", listed)):
            if word != "of" or len(changes) > 1:
                out(f"{word:10}{text}")


def _shown(name: StepName, outcome: StepOutcome) -> dict[str, Any]:
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


def _more(recorded: Side, changed: Side) -> str:
    more = changed.attempts - recorded.attempts
    return f"{more:+,} ({more / recorded.attempts:+.1%})" if more else "no change"


def _peak(peak: Peak | None) -> str:
    return "-" if peak is None else f"{peak.attempts:,}"


def _when(peak: Peak | None) -> str:
    return "" if peak is None else f"at {instant(peak.at)}"


def _duration(seconds: float | None) -> str:
    return "-" if seconds is None else duration(max(0.0, seconds))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _room() -> int:
    return min(100, terminal_width())
