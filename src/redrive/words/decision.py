"""Decisions: why a step is retried or not, and how its wait was computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from redrive.model.decision import DecisionFacts, Explanation, Reason
from redrive.words.number import plural
from redrive.words.time import machine

_UNCOUNTED = "not counted as a failure"

REASONS: Mapping[str, str] = MappingProxyType(
    {
        Reason.SUCCEEDED: "the attempt succeeded",
        Reason.BACKOFF: "a retry may help",
        Reason.RATE_LIMIT_HINT: f"the server said when to retry ({_UNCOUNTED})",
        Reason.UNAVAILABLE: f"the dependency was not called ({_UNCOUNTED})",
        Reason.INTERRUPTED: f"the attempt was interrupted ({_UNCOUNTED})",
        Reason.FINAL_ERROR: "a retry won't help",
        Reason.UNKNOWN_ERROR: "no rule matches this error, and unknown errors are not retried",
        Reason.ATTEMPTS_SPENT: "all attempts are used up",
        Reason.RATE_LIMIT_WAITS_SPENT: "it was rate limited too often",
        Reason.HOLDS_SPENT: "it was put on hold or released too often",
        Reason.NO_RETRIES: "the policy allows no retries",
        Reason.NOT_REPEATABLE: "it may have been executed, and is not safe to execute twice",
        Reason.DEADLINE: "the next attempt would start after the deadline",
        Reason.BUDGET_EMPTY: "the retry budget is used up",
        Reason.BREAKER_OPEN: "the circuit breaker of the dependency opened",
        Reason.LEASE_LOST: f"its worker died, was blocked, or lost its connection ({_UNCOUNTED})",
        Reason.PROBE: f"it was a probe, and the dependency is still failing ({_UNCOUNTED})",
        Reason.WORKER_CRASHED: "its worker crashed repeatedly while it ran alone",
        Reason.DEFERRED: f"the task asked to run again later ({_UNCOUNTED})",
        Reason.UNKNOWN_TASK: f"no task of this name is registered here ({_UNCOUNTED})",
        Reason.CANCELLED: "the run was cancelled",
        Reason.REPORTED: "another system reported the failure",
        Reason.NOT_STORED: "the consumer of the stream used up its attempts to store the entry",
        Reason.TOO_LONG: "the wait is longer than the caller accepts",
    }
)
"""The sentence of each reason, without a capital letter and a full stop."""

UNKNOWN_ERROR_HELP = (
    "To retry it, raise RetryableError, or give the task a classifier with a rule for this exception."
)

_JITTERS = MappingProxyType({"none": "no jitter", "full": "full jitter", "equal": "equal jitter"})


def why(facts: DecisionFacts) -> str:
    """Give the reason of a decision, without the computation of the wait: "all 4 attempts are used up"."""
    if facts.text:
        return facts.text
    if facts.code == Reason.ATTEMPTS_SPENT and facts.max_attempts:
        attempts = plural(facts.max_attempts, "attempt")
        return f"all {attempts} are used up" if facts.max_attempts > 1 else "the only attempt is used up"
    reason = REASONS.get(facts.code) or facts.code.replace("_", " ") or "no reason was stored"
    return reason if facts.hint is None else f"{reason}; the server asked for {facts.hint:g} s"


def computation(facts: DecisionFacts) -> str:
    """Describe the computation of a decision, or return ""."""
    return "; ".join(_computation(facts))


def basis(facts: DecisionFacts) -> str:
    """Give the error and the computation, for a reader who already sees the reason."""
    return "; ".join(part for part in (_error(facts), computation(facts)) if part)


def explain(decision: DecisionFacts | Explanation) -> str:
    """Give the error, the reason and the computation on one line."""
    facts = decision.facts() if isinstance(decision, Explanation) else decision
    return "; ".join(part for part in (_error(facts), why(facts), computation(facts)) if part)


def _error(facts: DecisionFacts) -> str:
    return f"{facts.category} (rule {facts.rule})" if facts.rule else ""


def _computation(facts: DecisionFacts) -> Iterator[str]:
    if facts.failures:
        yield f"failure {facts.failures} of at most {plural(facts.max_attempts, 'attempt')}"
    if facts.planned is not None:
        yield _wait(facts, facts.planned)
    if facts.due_at is not None:
        yield f"due {machine(facts.due_at, milliseconds=True)}"


def _wait(facts: DecisionFacts, planned: float) -> str:
    text = f"wait {facts.formula} = {planned:g} s, {_jitter(facts.jitter)}"
    if facts.low is None or facts.high is None or facts.low == facts.high:
        return text
    return (
        f"{text} [{facts.low:g} … {facts.high:g}], draw {facts.draw or 0.0:.4f} → {facts.seconds or 0.0:g} s"
    )


def _jitter(notation: str) -> str:
    """Name a jitter in the notation of `redrive.policy.jitter`."""
    word, _, argument = notation.partition(":")
    if word.endswith("%"):
        return f"jitter ±{word}"
    if word == "additive":
        return f"jitter +0 to {argument} s"
    return _JITTERS.get(notation) or (f"{word} jitter ×{argument}" if argument else f"jitter {word}")
