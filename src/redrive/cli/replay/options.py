"""Options of `redrive replay plan`: which dead letters, how fast, when to stop, which retry policy."""

from __future__ import annotations

import json
from typing import Any

import click

from redrive.cli.options import FractionParam, add_options, reason_option
from redrive.model.operation import MAX_ITEMS

MAX_IDS = 10_000


class ModeParam(click.ParamType[str]):
    """Also as the API spells it."""

    name = "mode"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = str(value).strip().upper().replace("-", "_")
        if found not in ("FROM_STEP", "STEP_ONLY"):
            self.fail(f"{value!r} is no mode: it is from-step or step-only", param, ctx)
        return found


def _policy(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> Any:
    """The API knows which names there are, and what they may be."""
    if not pairs:
        return None
    if len(pairs) == 1 and pairs[0].lstrip().startswith("{"):
        return _json(pairs[0], context, parameter)
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise click.BadParameter("it is NAME=VALUE, such as max_retries=5", context, parameter)
        found[name.strip()] = _json(text, context, parameter)
    return found


def _json(text: str, context: click.Context, parameter: click.Parameter) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise click.BadParameter(f"{text!r:.200} is neither a number nor JSON", context, parameter) from None


mode_option = click.option(
    "--mode", type=ModeParam(), metavar="MODE", help="from-step (the default) or step-only."
)
policy_option = click.option(
    "--policy",
    "override_retry_policy",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_policy,
    help="Another retry policy for this replay, such as max_retries=5; can be repeated.",
)
plan_options = add_options(
    click.option("--query", metavar="QUERY", help="Those that fulfil it, such as 'is:open step:charge'."),
    click.option("--group", metavar="FINGERPRINT", help="The live ones of this failure group."),
    click.option(
        "--max",
        "most",
        type=click.IntRange(1, MAX_IDS),
        metavar="N",
        help="At most so many of them, the oldest first.",
    ),
    mode_option,
    click.option(
        "--exclude-unsafe",
        is_flag=True,
        default=None,
        help="Leave out what may repeat an effect that is not safe to repeat.",
    ),
    click.option(
        "--canary",
        type=click.IntRange(0, MAX_ITEMS),
        metavar="N",
        help="So many first; the others when these have ended well. By default 10.",
    ),
    click.option(
        "--rate", type=click.FloatRange(0.001, 100_000), metavar="R", help="At most R a second after these."
    ),
    click.option(
        "--stop-failure-rate",
        "failure_rate",
        type=FractionParam(),
        metavar="PART",
        help="Stop when more than this part fails. By default 20%.",
    ),
    click.option(
        "--stop-minimum",
        "minimum",
        type=click.IntRange(1, MAX_ITEMS),
        metavar="N",
        help="Judge it so from so many on. By default 10.",
    ),
    click.option(
        "--stop-same-failures",
        "same_failures",
        type=click.IntRange(0, MAX_ITEMS),
        metavar="N",
        help="Stop when so many failed again just as before; 0: do not. By default 5.",
    ),
    click.option(
        "--stop-on-breaker/--no-stop-on-breaker",
        "stop_on_breaker",
        default=None,
        help="Stop when a breaker opens that the rest depends on. By default it does.",
    ),
    policy_option,
    click.option(
        "--expect",
        type=click.IntRange(0, MAX_ITEMS),
        metavar="N",
        help="Plan nothing unless exactly so many would be replayed.",
    ),
    reason_option,
)
