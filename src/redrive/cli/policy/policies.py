"""Retry policies of an application or of stored runs, and options to change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from redrive.cli.connection import open_database, run_on_database
from redrive.cli.options import SECONDS, GlobalOptions, add_options
from redrive.errors import InvalidFieldError, InvalidValueError, NotFoundError
from redrive.model.failure import Category
from redrive.parts import parts_of
from redrive.policy.curve import CURVES
from redrive.policy.jitter import JITTER_SYNTAX
from redrive.policy.policy_change import Alteration
from redrive.words.suggestion import suggest

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.engine.definition import Definition
    from redrive.policy.retry import RetryPolicy

Function = TypeVar("Function", bound=Callable[..., Any])


class _Delays(click.ParamType[tuple[float, ...]]):
    """Waits separated by commas, such as 20s,5m,30m."""

    name = "waits"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        return tuple(SECONDS.convert(word.strip(), param, ctx) for word in str(value).split(","))


_CATEGORY = click.Choice([category.value for category in Category])

_OPTIONS = add_options(
    click.option(
        "--attempts", type=int, metavar="N", help="Maximum number of attempts, including the first."
    ),
    click.option("--curve", type=click.Choice(list(CURVES)), help="Backoff curve: how the waits grow."),
    click.option("--base", type=SECONDS, help="First wait, in seconds or such as 250ms, 5m, 1h."),
    click.option("--factor", type=float, metavar="F", help="Multiply each wait by F (exponential)."),
    click.option("--increment", type=SECONDS, help="Add this to each wait (linear)."),
    click.option(
        "--delays", type=_Delays(), metavar="W,W,…", help="The waits one by one, such as 20s,5m,30m (table)."
    ),
    click.option("--cap", type=SECONDS, help="Maximum wait, before jitter."),
    click.option("--jitter", metavar="J", help=f"Jitter: {JITTER_SYNTAX}."),
    click.option(
        "--also-retry",
        type=_CATEGORY,
        multiple=True,
        metavar="CATEGORY",
        help="Also retry errors of this category; repeatable.",
    ),
    click.option(
        "--never-retry",
        type=_CATEGORY,
        multiple=True,
        metavar="CATEGORY",
        help="Never retry errors of this category; repeatable.",
    ),
    click.option(
        "--rate-limit-waits", type=int, metavar="N", help="Maximum number of waits requested by a rate limit."
    ),
)


class PolicyInUse(NamedTuple):
    """A policy and the step that uses it."""

    workflow: str
    step: str
    task: str
    policy: RetryPolicy

    @property
    def name(self) -> str:
        return self.step if self.workflow == self.step else f"{self.workflow}.{self.step}"


def of_application(target: str) -> list[PolicyInUse]:
    from redrive.cli.application import application_at

    return _policies(parts_of(application_at(target)).registry.workflows.values())


def of_database(given: GlobalOptions, org: str) -> list[PolicyInUse]:
    async def read(app: Redrive) -> list[PolicyInUse]:
        from redrive.failures.what_if import newest_definitions

        await open_database(app, org)
        return _policies(await newest_definitions(parts_of(app).store, org))

    return run_on_database(given, read)


def of_work(policies: list[PolicyInUse], work: str | None, where: str) -> list[PolicyInUse]:
    """Filter by the name of a task, a workflow, or WORKFLOW.STEP; None keeps all."""
    if work is None:
        return policies
    found = [used for used in policies if work in (used.workflow, used.name, used.task)]
    if not found:
        names = {name for used in policies for name in (used.name, used.workflow)}
        raise NotFoundError(f"{where} has no task, workflow or step {work!r}; {suggest(work, names)}")
    return found


def _policies(definitions: Iterable[Definition]) -> list[PolicyInUse]:
    return [
        PolicyInUse(definition.workflow, step.name, step.task, step.retry)
        for definition in definitions
        for step in definition.steps
    ]


def alteration_options(function: Function) -> Function:
    """Add options that change a policy, and pass them as the argument `alteration`."""

    @wraps(function)
    def altered(*arguments: Any, **options: Any) -> Any:
        given = {name: options.pop(name) for name in Alteration._fields if name in options}
        given["delays"] = given["delays"] or ()
        alteration = Alteration(**given)
        try:
            alteration.check()
            return function(*arguments, alteration=alteration, **options)
        except InvalidFieldError as error:
            if error.field not in given:
                raise
            raise InvalidValueError(f"--{error.field.replace('_', '-')} {error.problem}") from None

    return _OPTIONS(altered)  # type: ignore[return-value]
