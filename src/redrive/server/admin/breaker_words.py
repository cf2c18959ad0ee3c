"""A breaker's policy in words: when it opens, and how it closes again."""

from __future__ import annotations

from redrive.policy.breaker_policy import BreakerPolicy
from redrive.server.admin.words import duration, percent, plural


def opens(policy: BreakerPolicy) -> str:
    """Opens when 50 % of the last 20 calls fail."""
    rules = [f"{percent(policy.failure_rate)} {_window(policy)} fail"]
    if policy.slow_seconds is not None:
        rules.append(f"{percent(policy.slow_rate)} take {duration(policy.slow_seconds)} or longer")
    return f"Opens when {' or '.join(rules)}, from {plural(policy.minimum_calls, 'call')} on."


def _window(policy: BreakerPolicy) -> str:
    calls = None if policy.window_calls is None else f"of the last {plural(policy.window_calls, 'call')}"
    if policy.window_seconds is None:
        return str(calls)
    lately = f"of those within {duration(policy.window_seconds)}"
    return lately if calls is None else f"{calls}, or {lately},"


def closes(policy: BreakerPolicy) -> str:
    return (
        f"Probed after {duration(policy.cool_down)}; closes after "
        f"{plural(policy.successes_to_close, 'good probe')}."
    )
