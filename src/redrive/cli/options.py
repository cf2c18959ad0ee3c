"""Options shared by several commands, and the types of their values."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeVar

import click

from redrive.errors import InvalidValueError
from redrive.model.identity import HOME
from redrive.settings import SETTINGS, Argument, Settings
from redrive.words.time import MAX_SECONDS, duration, machine, parse_duration

FORMATS = ("table", "json", "ndjson", "csv", "plain")
DEFAULT_LIMIT = 50
SERVER_VARIABLE = "REDRIVE_SERVER"
LOCAL = "local"
"""The name of the context for the configured database."""

Function = TypeVar("Function", bound=Callable[..., Any])

_SETTINGS = {setting.name: setting for setting in SETTINGS}
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(slots=True)
class GlobalOptions:
    """Options that are accepted before and after the command name."""

    config: str | None = None
    server: str | None = None
    context: str | None = None
    org: str | None = None
    app: str | None = None
    arguments: dict[str, Argument] = field(default_factory=dict)
    debug: bool = False

    def settings(self) -> Settings:
        return Settings.load(file=self.config, arguments=self.arguments)

    def give(self, name: str, value: object, option: str) -> None:
        """Override a setting with the value of an option; None means that the option was not given."""
        if value is not None:
            self.arguments[name] = Argument(value, option)


class DurationParam(click.ParamType[float]):
    """A duration such as 30m or 90d, in seconds, within bounds. `unit` applies to a bare number."""

    name = "duration"

    def __init__(self, minimum: float = 0.0, maximum: float = inf, *, unit: str = "") -> None:
        self._minimum = minimum
        self._maximum = maximum
        self._unit = unit

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        try:
            seconds = 0.0 if text == "0" else parse_duration(text, unit=self._unit)
        except InvalidValueError as error:
            self.fail(str(error), param, ctx)
        if not self._minimum <= seconds <= self._maximum:
            lower, upper = duration(self._minimum), duration(self._maximum)
            bounds = f"at least {lower}" if self._maximum == inf else f"from {lower} to {upper}"
            self.fail(f"{text!r} is out of range; use a duration {bounds}", param, ctx)
        return seconds


DURATION = DurationParam(maximum=36_500 * 86_400.0)
"""Limited to 100 years, so that adding it to a date stays within the calendar."""
SECONDS = DurationParam(maximum=MAX_SECONDS, unit="s")


class NumberParam(click.IntRange):
    """A whole number within bounds. `hint` names an alternative in the error for any other value."""

    name = "number"

    def __init__(self, minimum: int | None = None, maximum: int | None = None, *, hint: str = "") -> None:
        super().__init__(minimum, maximum)
        self._hint = hint

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(str(value))
        except ValueError:
            number = None
        if number is None or not self._contains(number):
            self.fail(f"use a whole number{self._bounds()}{self._hint}, not {value!r}", param, ctx)
        return number

    def _contains(self, number: int) -> bool:
        return (self.min is None or number >= self.min) and (self.max is None or number <= self.max)

    def _bounds(self) -> str:
        if self.min is None:
            return "" if self.max is None else f" of at most {self.max:,.0f}"
        return (
            f" of at least {self.min:,.0f}"
            if self.max is None
            else f" from {self.min:,.0f} to {self.max:,.0f}"
        )


class LimitParam(NumberParam):
    """The value of --limit, at least 1. `--all` sets it to the number 0, which can't be typed."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return 0 if value == 0 else super().convert(value, param, ctx)


class MomentParam(click.ParamType[str]):
    """A date, an RFC 3339 time, or a duration before now; converted to RFC 3339."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        if _DAY.match(text):
            return text if len(text) > len("2030-01-31") else f"{text}T00:00:00Z"
        return machine(time.time() - DURATION.convert(text, param, ctx))


class FractionParam(click.ParamType[float]):
    """A percentage or a fraction: 20% or 0.2."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        try:
            found = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            found = -1.0
        if not 0.0 <= found <= 1.0:
            self.fail(f"{value!r} is not a percentage or a fraction, such as 20% or 0.2", param, ctx)
        return found


def add_options(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Combine options into one decorator. The help lists them in this order."""

    def add(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def _store(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Store the value; the program and its commands accept the same options."""
    if value not in (None, False):
        setattr(context.ensure_object(GlobalOptions), str(parameter.name), value)


def _secret(name: str, text: str) -> str | None:
    """Say what is secret about the value of a setting, if anything is."""
    setting = _SETTINGS.get(name)
    if setting is None:
        return None
    if setting.secret:
        return f"{name} is a secret"
    holds_password = setting.sensitive and setting.mask(text) != text
    return f"this {name} contains a password" if holds_password else None


def _store_settings(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> None:
    for pair in value:
        name, equals, text = pair.partition("=")
        if not equals:
            raise click.BadParameter("write it as NAME=VALUE, such as server_port=8080", context, parameter)
        name = name.strip().lower()
        if what := _secret(name, text):
            raise click.BadParameter(
                f"{what}, and other users can see arguments; use the environment or a file",
                context,
                parameter,
            )
        context.ensure_object(GlobalOptions).give(name, text, f"--set {name}")


settings_options = add_options(
    click.option(
        "--config",
        metavar="FILE",
        expose_value=False,
        callback=_store,
        help="Read settings from this TOML or YAML file instead of the one in REDRIVE_CONFIG.",
    ),
    click.option(
        "--set",
        metavar="NAME=VALUE",
        multiple=True,
        expose_value=False,
        callback=_store_settings,
        help="Override a setting for this command. Not for secrets.",
    ),
    click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_store,
        help="Show a traceback if the command fails.",
    ),
)
server_options = add_options(
    click.option(
        "--server",
        metavar="URL",
        expose_value=False,
        callback=_store,
        help=f"Use this server, not a database; REDRIVE_API_KEY has its key. Env: {SERVER_VARIABLE}.",
    ),
    click.option(
        "--context",
        metavar="NAME",
        expose_value=False,
        callback=_store,
        help=f"Use a saved context (see `redrive context`). {LOCAL!r} is the configured database.",
    ),
)
app_option = click.option(
    "--app",
    metavar="MODULE:ATTRIBUTE",
    expose_value=False,
    callback=_store,
    help="Your application, such as shop.work:app, imported from this directory. Servers have their own.",
)
org_option = click.option(
    "--org",
    metavar="NAME",
    expose_value=False,
    callback=_store,
    help=f"Act on this organization. Default: {HOME!r}.",
)


def _none_for_zero(_context: click.Context, _parameter: click.Parameter, value: int | None) -> int | None:
    """Turn the 0 of `--all` into None. Both options need it: click calls the callback of only one of them."""
    return value or None


limit_option = add_options(
    click.option(
        "--limit",
        "limit",
        type=LimitParam(1, hint=", or --all"),
        metavar="N",
        default=DEFAULT_LIMIT,
        show_default=True,
        callback=_none_for_zero,
        help="Show at most N rows.",
    ),
    click.option(
        "--all",
        "limit",
        flag_value=0,
        type=int,
        callback=_none_for_zero,
        help="Show all rows.",
    ),
)
json_option = click.option("--json", "output", flag_value="json", help="Short for `-o json`.")
output_option = add_options(
    click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        default=None,
        help="Output format. Default: table on a terminal, plain otherwise.",
    ),
    json_option,
)
ids_argument = click.argument("ids", nargs=-1, required=True, metavar="ID...")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
reason_option = click.option("--reason", default="", help="Record a reason in the audit log.")
timeout_option = click.option(
    "--timeout", type=DURATION, metavar="DURATION", help="Stop waiting after this long, such as 10m."
)
yes_option = click.option("-y", "--yes", is_flag=True, help="Skip the confirmation.")
