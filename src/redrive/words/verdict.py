"""Verdicts in sentences: why work stopped, changes since then, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from redrive.model.decision import Reason
from redrive.words.decision import UNKNOWN_ERROR_HELP, why
from redrive.words.failure import describe_mismatch
from redrive.words.number import names, plural
from redrive.words.state import status
from redrive.words.time import age, duration

MAX_NAMED = 3

Render = Callable[[Mapping[str, Any]], str]


def _stopped(it: Mapping[str, Any]) -> str:
    attempts, reason = plural(it["attempts"], "attempt"), why(it["decision"])
    sentence = f"It stopped after {attempts} with {it['error_type']} ({it['category']}): {reason}."
    return f"{sentence} {UNKNOWN_ERROR_HELP}" if it["decision"].code == Reason.UNKNOWN_ERROR else sentence


def _breaker_open(it: Mapping[str, Any]) -> str:
    probe = "" if it["probe_in"] is None else f" The next probe is in {duration(it['probe_in'])}."
    return f"The breaker {it['breaker']!r} is open: the dependency is failing.{probe}"


def _code_changed(it: Mapping[str, Any]) -> str:
    before = f" It failed in {it['failed_in']}." if it["failed_in"] else ""
    return f"Workers now run another version of the code: {names(it['versions'], MAX_NAMED)}.{before}"


def _times(it: Mapping[str, Any]) -> str:
    if it["capped"]:
        return f"at least {it['times']:,} times"
    return "once" if it["times"] == 1 else f"{it['times']:,} times"


def _replays(who: str) -> Render:
    def render(it: Mapping[str, Any]) -> str:
        least = "at least " if it["capped"] else ""
        replays = plural(it["succeeded"] + it["failed"], "replay")
        return f"{who}: {least}{replays} so far, {it['succeeded']:,} succeeded, {it['failed']:,} failed."

    return render


def _most_replays(it: Mapping[str, Any]) -> str:
    return "the only replay of this failure" if it["only"] else "most replays of this failure"


def _payload_mismatch(it: Mapping[str, Any]) -> str:
    mismatch = it.get("mismatch")
    problem = "" if mismatch is None else describe_mismatch(mismatch)
    problem = problem or "The payload doesn't fit the code."
    return f"{problem} Let the code accept old payloads, or replay with an edited payload."


def _redriven(it: Mapping[str, Any]) -> str:
    when = f"in {duration(it['seconds'])}" if it["seconds"] > 0.0 else "as soon as a worker is free"
    turn = f" ({it['number']:,} of {it['of']:,})" if it["of"] else ""
    return f"Redrive will replay it automatically {when}{turn}."


VERDICTS: Mapping[str, Render] = MappingProxyType(
    {
        "stopped": _stopped,
        # What has changed
        "breaker_probing": lambda it: (
            f"The breaker {it['breaker']!r} is probing: the next calls show whether it works again."
        ),
        "breaker_idle": lambda it: (
            f"The breaker {it['breaker']!r} is half-open, and nothing waits for it: the next run, such as a "
            f"replay, tries the dependency."
        ),
        "breaker_open": _breaker_open,
        "breaker_closed": lambda it: (
            f"The breaker {it['breaker']!r} closed {age(it['seconds_ago'])} ago: the dependency works again."
        ),
        "code_changed": _code_changed,
        "still_fails": lambda it: f"It still fails the same way in {names(it['versions'], MAX_NAMED)}.",
        "step_succeeded": lambda it: f"The step {it['step']!r} has succeeded {_times(it)} since.",
        "failure_occurred": lambda it: f"The same failure has occurred {_times(it)} elsewhere since.",
        "replayed": _replays("This dead letter"),
        "others_replayed": _replays("Others with the same failure"),
        "waits_for": lambda it: f"It waits for {names(it['dead_letters'], MAX_NAMED)}, not resolved yet.",
        # What to do
        "being_replayed": lambda it: "A replay is running. Wait for its outcome.",
        "closed": lambda it: f"It is {status(it['state'])}. There is nothing to do.",
        "stuck_behind": lambda it: (
            f"It waits until a person acts: no automatic redrive will resolve "
            f"{names(it['dead_letters'], MAX_NAMED)}. Replay or resolve that dead letter, or unlink them."
        ),
        "resolve_first": lambda it: f"Resolve {names(it['dead_letters'], MAX_NAMED)} first.",
        "wait_for_breaker": lambda it: (
            f"Wait until the breaker {it['breaker']!r} closes. Until then, a replay is put on hold."
        ),
        "replays_succeeded": lambda it: f"Replay it: {_most_replays(it)} succeeded.",
        "replays_failed": lambda it: f"Find the cause first: {_most_replays(it)} failed.",
        "replay_failed_before": lambda it: (
            "Find the cause first: a replay has already failed, and nothing has changed since."
        ),
        "works_in_new_version": lambda it: "Replay it: the step works in another version of the code.",
        "try_new_version": lambda it: (
            "Replay one to find out: the code has changed, but possibly not in this place."
        ),
        "payload_mismatch": _payload_mismatch,
        "needs_change": lambda it: (
            "A replay will fail again unless the code, the settings or the payload change first."
        ),
        "still_happening": lambda it: "Wait, or find the cause: the failure is still occurring.",
        "has_passed": lambda it: "Replay it: the cause of the failure has passed.",
        "may_have_passed": lambda it: (
            "Replay one to find out: failures like this often pass, but nothing shows yet that this one has."
        ),
        # Automatic replays, and warnings
        "redrives_used_up": lambda it: (
            f"{plural(it['redrives'], 'automatic replay')} did not help, and there will be no more."
        ),
        "redriven": _redriven,
        "may_repeat_effect": lambda it: (
            "Careful: the step may have taken effect already, and a replay may repeat that. "
            "Check the other system before you replay."
        ),
    }
)
"""The sentence of each fact of a verdict."""
