"""Options of `redrive replay plan`: selection, speed, stop conditions and retry policy."""

from __future__ import annotations

import json
from typing import Any

import click

from redrive.cli.options import FractionParam, NumberParam, add_options, reason_option
from redrive.model.operation import MAX_ITEMS

MAX_IDS = 10_000


class ModeParam(click.ParamType[str]):
    """A replay mode, also in the spelling of the API."""

    name = "mode"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = str(value).strip().upper().replace("-", "_")
        if found not in ("FROM_STEP", "STEP_ONLY"):
            self.fail(f"{value!r} is not a mode; use from-step or step-only", param, ctx)
        return found


def _policy(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> Any:
    """Parse NAME=VALUE pairs or a JSON object; the API checks the names and values."""
    if not pairs:
        return None
    if len(pairs) == 1 and pairs[0].lstrip().startswith("{"):
        return _json(pairs[0], context, parameter)
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise click.BadParameter("write it as NAME=VALUE, such as max_retries=5", context, parameter)
        found[name.strip()] = _json(text, context, parameter)
    return found


def _json(text: str, context: click.Context, parameter: click.Parameter) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise click.BadParameter(f"{text!r:.200} is neither a number nor JSON", context, parameter) from None


mode_option = click.option(
    "--mode", type=ModeParam(), metavar="MODE", help="Replay mode: from-step (default) or step-only."
)
policy_option = click.option(
    "--policy",
    "override_retry_policy",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_policy,
    help="Change the step's retry policy for this replay, such as max_retries=5; repeatable.",
)
plan_options = add_options(
    click.option("--query", metavar="QUERY", help="Select all that match, such as 'is:open step:charge'."),
    click.option(
        "--status",
        metavar="STATE",
        help="Select all in this state, such as failed; same as --query is:STATE.",
    ),
    click.option(
        "--group",
        metavar="FINGERPRINT",
        help="Select the dead letters of this failure group that are not closed.",
    ),
    click.option(
        "--max",
        "--limit",
        "maximum",
        type=NumberParam(1, MAX_IDS),
        metavar="N",
        help="Select at most N, oldest first.",
    ),
    mode_option,
    click.option(
        "--exclude-unsafe",
        is_flag=True,
        default=None,
        help="Skip dead letters that may repeat a side effect that is not safe to repeat.",
    ),
    click.option(
        "--canary",
        type=NumberParam(0, MAX_ITEMS),
        metavar="N",
        help="Start with a canary of N; the rest follow if it succeeds. Default: 10.",
    ),
    click.option(
        "--rate",
        type=click.FloatRange(0.001, 100_000),
        metavar="R",
        help="Start at most R per second after the canary.",
    ),
    click.option(
        "--stop-failure-rate",
        "failure_rate",
        type=FractionParam(),
        metavar="SHARE",
        help="Stop if more than this share fails, such as 10% or 0.1. Default: 20%.",
    ),
    click.option(
        "--stop-minimum",
        "minimum",
        type=NumberParam(1, MAX_ITEMS),
        metavar="N",
        help="Check the failure rate from N finished items on. Default: 10.",
    ),
    click.option(
        "--stop-same-failures",
        "same_failures",
        type=NumberParam(0, MAX_ITEMS),
        metavar="N",
        help="Stop if N items fail with the same error as before; 0 disables this. Default: 5.",
    ),
    click.option(
        "--stop-on-breaker/--no-stop-on-breaker",
        "stop_on_breaker",
        default=None,
        help="Stop if a breaker opens that the rest depends on. Default: stop.",
    ),
    policy_option,
    click.option(
        "--expect",
        type=NumberParam(0, MAX_ITEMS),
        metavar="N",
        help="Plan nothing unless exactly N would be replayed.",
    ),
    reason_option,
)
