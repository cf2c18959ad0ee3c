"""The options that change a policy."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import click

from redrive.cli.parameters import SECONDS
from redrive.errors import InvalidFieldError, InvalidValueError
from redrive.model.failure import Category
from redrive.policy.alteration import Alteration
from redrive.policy.curve import CURVES
from redrive.policy.jitter import JITTER_SYNTAX

Function = TypeVar("Function", bound=Callable[..., Any])

_CATEGORY = click.Choice([category.value for category in Category])

_OPTIONS = (
    click.option("--attempts", type=int, metavar="N", help="Executions in all, the first one included."),
    click.option("--curve", type=click.Choice(list(CURVES)), help="How the waits grow."),
    click.option("--base", type=SECONDS, help="The first wait: seconds, or such as 250ms, 5m, 1h."),
    click.option("--factor", type=float, metavar="F", help="By which each wait is longer (exponential)."),
    click.option("--increment", type=SECONDS, help="By which each wait is longer (linear)."),
    click.option("--cap", type=SECONDS, help="The longest wait, before jitter."),
    click.option("--jitter", metavar="J", help=f"{JITTER_SYNTAX}."),
    click.option(
        "--also-retry",
        type=_CATEGORY,
        multiple=True,
        metavar="CATEGORY",
        help="Retry such errors, too. Repeatable.",
    ),
    click.option(
        "--never-retry",
        type=_CATEGORY,
        multiple=True,
        metavar="CATEGORY",
        help="Do not retry these. Repeatable.",
    ),
    click.option(
        "--rate-limit-waits", type=int, metavar="N", help="How often a server may say when to return."
    ),
)


def alteration_options(function: Function) -> Function:
    """Add the argument `alteration`: what the options change in a policy."""

    @wraps(function)
    def altered(*arguments: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in Alteration._fields if name in options}
        alteration = Alteration(**given)
        try:
            alteration.check()
            return function(*arguments, alteration=alteration, **options)
        except InvalidFieldError as error:
            if error.field not in given:
                raise
            raise InvalidValueError(f"--{error.field.replace('_', '-')} {error.problem}") from None

    changed: Any = altered
    for option in reversed(_OPTIONS):
        changed = option(changed)
    return changed  # type: ignore[no-any-return]
