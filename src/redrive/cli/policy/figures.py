"""Results of a policy simulation, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redrive.cli.table import Row
from redrive.policy.policy_json import policy_to_json
from redrive.policy.what_if import Proof
from redrive.words.time import machine

if TYPE_CHECKING:
    from redrive.failures.what_if import StepName, StepOutcome, WhatIf
    from redrive.policy.comparison import Peak, PolicyComparison, Side

MEDIAN, HIGH = 0.5, 0.95

ASSUMPTIONS = (
    "Attempts are assumed to fail until there is evidence that the step worked again, and to succeed "
    "after that.",
    "Without evidence, an attempt is assumed to fail, so shorter waits look worse than they are.",
    "Evidence from other runs may not apply to work that fails because of its own payload; with few runs "
    "close together, such work is wrongly counted as avoided.",
    "More attempts may keep a struggling dependency down for longer; the simulation ignores that.",
    "New waits use the middle of their jitter; time under an open breaker stays as recorded.",
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


def step_figures(name: StepName, outcome: StepOutcome) -> Row:
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


def all_figures(found: WhatIf) -> Row:
    return {
        "since": machine(found.since),
        "runs": found.runs,
        "attempts_read": found.attempts,
        "left_out": {"unfinished": found.unfinished, "unreadable": found.unreadable},
        **_compared(found.total),
        "steps": [
            {
                **name._asdict(),
                "task": outcome.task,
                "dependency": outcome.dependency,
                **_compared(outcome.comparison),
                "policy": {
                    "recorded": policy_to_json(outcome.recorded),
                    "changed": policy_to_json(outcome.changed),
                },
            }
            for name, outcome in found.steps.items()
        ],
        "assumptions": list(ASSUMPTIONS),
    }


def _compared(comparison: PolicyComparison) -> Row:
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
            "hoped_for": {kind: round(comparison.hoped_for[kind], 1) for kind in ("unknown", "unsure")},
        },
        "attempts": {"recorded": recorded.attempts, "changed": changed.attempts},
        "busiest_minute": {"recorded": _moment(recorded.busiest), "changed": _moment(changed.busiest)},
        "seconds_until_success": {"recorded": _waits(recorded), "changed": _waits(changed)},
    }


def _moment(peak: Peak | None) -> Row | None:
    return None if peak is None else {"at": machine(peak.at), "attempts": peak.attempts}


def _waits(side: Side) -> dict[str, float | None]:
    waits = {"median": side.waited(MEDIAN), "p95": side.waited(HIGH)}
    return {name: None if seconds is None else round(seconds, 3) for name, seconds in waits.items()}
