"""A bulk replay in words: what it was planned for, how it goes about it, and what its plan means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from redrive.errors import RedriveError
from redrive.model.operation import UNDER_WAY_NOTE, Plan, ReplayOperation
from redrive.policy.rollout import Rollout, RolloutOptions
from redrive.server.admin.words import number, percent, plural
from redrive.server.api.resource import object_in, value_in

MODES = {
    "FROM_STEP": (
        "From the failed step to the end",
        "The failed step runs again, then the steps after it. Results of earlier steps are reused.",
    ),
    "STEP_ONLY": (
        "The failed step alone",
        "Steps after it are not run: a run that has some is then partial, and can go on later.",
    ),
}


class Chosen(NamedTuple):
    """What was selected. `parameters` name it to the API and, but for many ids, to the dialog.

    title  of a failure group, where it is known
    """

    kind: str
    text: str
    number: int | None = None
    parameters: Mapping[str, Any] = {}
    title: str = ""


def chosen(operation: ReplayOperation) -> Chosen:
    told = object_in(operation.selection)
    if "query" in told:
        query = str(told["query"])
        return Chosen("query", query or "all dead letters", None, {"query": query})
    if "group" in told:
        return Chosen("group", str(told["group"]), None, {"group": str(told["group"])})
    ids = [str(each) for each in told.get("ids", ())]
    many = int(told.get("number", len(ids)))
    text = ids[0] if many == 1 and ids else f"{plural(many, 'dead letter')} chosen by hand"
    return Chosen("ids", text, many, {"ids": ids} if len(ids) == many else {})


def rollout_of(operation: ReplayOperation) -> Rollout:
    """What somebody has damaged by hand must not keep the page from being shown."""
    try:
        return Rollout.from_text(operation.options)
    except (RedriveError, AttributeError, LookupError, TypeError):
        return Rollout(RolloutOptions())


def careful(options: RolloutOptions, will_run: int) -> Iterator[str]:
    """How it goes about it: the beginning, the pace, and when it stops."""
    if will_run > options.canary > 0:
        yield f"Begins with {number(options.canary)}; the others follow when these have ended well."
    else:
        yield f"Begins all {number(will_run)} at once." if will_run > 1 else "Begins at once."
    if options.rate is not None:
        yield f"Then at most {options.rate:g} a second."
    if will_run > 1:
        yield f"Stops itself {_stops(options)}."


def _stops(options: RolloutOptions) -> str:
    judged = f"judged from {options.minimum} on, and at the end of a canary"
    causes = [f"when more than {percent(options.failure_rate)} fail ({judged})"]
    if options.same_failures is not None:
        causes.append(f"when {plural(options.same_failures, 'item')} failed again just as before")
    if options.stop_on_breaker:
        causes.append("when a breaker opens that the rest depends on")
    return causes[0] if len(causes) == 1 else f"{', '.join(causes[:-1])}, or {causes[-1]}"


class Wait(NamedTuple):
    """Items that wait: for a "breaker", a "queue" or a "dead letter"."""

    kind: str
    name: str
    number: int


def waits(plan: Plan) -> Iterator[Wait]:
    for what, items in plan.waits.items():
        for kind in ("breaker", "queue", "dead letter"):
            if what.startswith(f"{kind} "):
                yield Wait(kind, what.removeprefix(f"{kind} "), items)


def reaching(why: str) -> str:
    """The id of the replay that is under way, when it is why an item was refused."""
    beginning, ending = UNDER_WAY_NOTE
    is_it = why.startswith(beginning) and why.endswith(ending)
    return why.removeprefix(beginning).removesuffix(ending) if is_it else ""


def plan_again(operation: ReplayOperation, ids: Sequence[str] = ()) -> dict[str, Any] | None:
    """The request that plans the same anew; None when it is not known any more what was selected."""
    selected = dict(chosen(operation).parameters) or ({"ids": list(ids)} if ids else {})
    if not selected:
        return None
    options = rollout_of(operation).options
    told = object_in(operation.selection)
    again = {
        **selected,
        "mode": operation.mode,
        "reason": operation.reason,
        "exclude_unsafe": bool(told.get("exclude_unsafe")),
        **{name: getattr(options, name) for name in RolloutOptions.__slots__},
    }
    if operation.policy_override is not None:
        again["override_retry_policy"] = value_in(operation.policy_override)
    return again
