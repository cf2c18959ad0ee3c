"""A bulk replay in words: what was selected, what its plan means, and how carefully it goes about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from redrive.cli.output import Row
from redrive.words.duration import age
from redrive.words.number import plural

_UNDER_WAY = re.compile(r"it is an item of the replay (\w+) that is under way")
MODES = {
    "FROM_STEP": "from the failed step to the end",
    "STEP_ONLY": "the failed step alone",
}


def selected(operation: Row) -> str:
    told = operation["selection"]
    if "query" in told:
        return str(told["query"]) or "all dead letters"
    if "group" in told:
        return f"the group {told['group']}"
    ids = told.get("ids", [])
    number = int(told.get("number", len(ids)))
    return str(ids[0]) if number == 1 and ids else f"{plural(number, 'dead letter')} by id"


def promise(plan: Row) -> str:
    """What a plan comes to, in one sentence."""
    if not plan["selected"]:
        return "No dead letter is selected"
    if not plan["will_run"]:
        return f"Nothing of {plural(plan['selected'], 'dead letter')} can be replayed"
    if plan["selected"] == 1:
        return "1 dead letter will be replayed"
    return f"{plan['will_run']:,} of {plural(plan['selected'], 'dead letter')} will be replayed"


class Consequence(NamedTuple):
    """`risky`: somebody should think about it first."""

    number: int
    text: str
    risky: bool = False


def consequences(plan: Row) -> Iterator[Consequence]:
    """What will happen, each with how often."""
    for step, number in plan["steps"].items():
        yield Consequence(number, f"{'execution' if number == 1 else 'executions'} of {step}")
    reused, unsafe, keyed = (
        plan[name] for name in ("results_reused", "may_repeat_effects", "repeat_under_key")
    )
    if reused:
        one, many = "result of an earlier step is reused", "results of earlier steps are reused"
        yield Consequence(reused, one if reused == 1 else many)
    if unsafe := plan["may_repeat_effects"]:
        yield Consequence(unsafe, "may repeat an effect that is not safe to repeat", risky=True)
    if keyed := plan["repeat_under_key"]:
        yield Consequence(
            keyed, "may repeat an effect under its idempotency key: harmless where the receiver heeds it"
        )
    for what, number in plan["waits"].items():
        yield Consequence(number, f"{'waits' if number == 1 else 'wait'} for the {what}")
    if plan["skipped"]:
        yield Consequence(plan["skipped"], "left out: it may have had an effect that is not safe to repeat")
    for why, number in plan["refused"].items():
        yield Consequence(number, f"will not run: {helpful(why)}")


def helpful(why: str) -> str:
    """Why something is not replayed, with what to do about it where that is known."""
    other = _UNDER_WAY.fullmatch(why)
    if other is None:
        return why
    return f"{why}: resume or cancel that one first (redrive replay view {other[1]})"


def careful(options: Row, will_run: int) -> Iterator[str]:
    """How it begins, how fast it is, and when it stops itself."""
    canary, rate = options["canary"], options["rate"]
    rest = max(0, will_run - canary)
    if rest and canary:
        yield f"Begins with {canary:,}; the others follow when these have ended well."
    elif will_run > 1 and (rate is None or not rest):
        yield f"Begins all {will_run:,} at once."
    if rate is not None and rest:
        yield f"At most {rate:g} a second, so {age(rest / rate)} or longer."
    if will_run > 1:
        yield f"Stops itself {_stops(options)}."


def _stops(options: Row) -> str:
    judged = f"judged from {options['minimum']} on, and at the end of a canary"
    causes = [f"when more than {options['failure_rate']:.0%} fail ({judged})"]
    if options["same_failures"] is not None:
        causes.append(f"when {plural(options['same_failures'], 'item')} failed again just as before")
    if options["stop_on_breaker"]:
        causes.append("when a breaker opens that the rest depends on")
    return causes[0] if len(causes) == 1 else f"{', '.join(causes[:-1])}, or {causes[-1]}"


def policy_words(policy: Any) -> str | None:
    """Of another retry policy, for this replay only."""
    if not policy:
        return None
    return f"at most {plural(policy['max_attempts'], 'attempt')}" if "max_attempts" in policy else str(policy)
