"""Options that several commands have, the types of their values, and what was given for all commands."""

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
"""The name of the context for the database of the settings."""

Function = TypeVar("Function", bound=Callable[..., Any])

_SECRETS = frozenset(setting.name for setting in SETTINGS if setting.secret)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(slots=True)
class GlobalOptions:
    """Options that stand before or after the name of a command."""

    config: str | None = None
    server: str | None = None
    context: str | None = None
    org: str | None = None
    arguments: dict[str, Argument] = field(default_factory=dict)
    debug: bool = False

    def settings(self) -> Settings:
        return Settings.load(file=self.config, arguments=self.arguments)

    def give(self, name: str, value: object, option: str) -> None:
        """Set a setting that has an option; None if the option was not given."""
        if value is not None:
            self.arguments[name] = Argument(value, option)


class DurationParam(click.ParamType[float]):
    """A duration in seconds, such as 30m or 90d, within bounds. `unit` is that of a bare number."""

    name = "duration"

    def __init__(self, least: float = 0.0, most: float = inf, *, unit: str = "") -> None:
        self._least = least
        self._most = most
        self._unit = unit

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        try:
            seconds = 0.0 if text == "0" else parse_duration(text, unit=self._unit)
        except InvalidValueError as error:
            self.fail(str(error), param, ctx)
        if not self._least <= seconds <= self._most:
            least = f"at least {duration(self._least)}"
            bounds = least if self._most == inf else f"{least} and at most {duration(self._most)}"
            self.fail(f"{text!r} is not {bounds}", param, ctx)
        return seconds


DURATION = DurationParam(most=36_500 * 86_400.0)
"""Calendars still know what day it is so far from now."""
SECONDS = DurationParam(most=MAX_SECONDS, unit="s")


class MomentParam(click.ParamType[str]):
    """A day, a time as in RFC 3339, or how long ago."""

    name = "moment"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        if _DAY.match(text):
            return text if len(text) > len("2030-01-31") else f"{text}T00:00:00Z"
        return machine(time.time() - DURATION.convert(text, param, ctx))


class FractionParam(click.ParamType[float]):
    """A part of a whole: 20% or 0.2."""

    name = "part"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value).strip()
        try:
            found = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            found = -1.0
        if not 0.0 <= found <= 1.0:
            self.fail(f"{value!r} is no part of a whole, such as 20% or 0.2", param, ctx)
        return found


def add_options(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Combine options into one decorator; help lists them in this order."""

    def add(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def _store(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Keep what was given; the program and its commands have the same options."""
    if value not in (None, False):
        setattr(context.ensure_object(GlobalOptions), str(parameter.name), value)


def _store_settings(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> None:
    for pair in value:
        name, equals, text = pair.partition("=")
        if not equals:
            raise click.BadParameter("it is NAME=VALUE, such as server_port=8080", context, parameter)
        name = name.strip().lower()
        if name in _SECRETS:
            raise click.BadParameter(
                f"{name} is a secret, and others can read arguments; use the environment or a file",
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
        help="A file with settings (TOML or YAML), instead of the one that REDRIVE_CONFIG names.",
    ),
    click.option(
        "--set",
        metavar="NAME=VALUE",
        multiple=True,
        expose_value=False,
        callback=_store_settings,
        help="A setting for this command; wins over the file and the environment. Not for secrets.",
    ),
    click.option(
        "--debug",
        is_flag=True,
        expose_value=False,
        callback=_store,
        help="If something goes wrong, show where in the program.",
    ),
)
server_options = add_options(
    click.option(
        "--server",
        metavar="URL",
        expose_value=False,
        callback=_store,
        help=f"Ask this server, with the key in REDRIVE_API_KEY, and not a database. Also {SERVER_VARIABLE}.",
    ),
    click.option(
        "--context",
        metavar="NAME",
        expose_value=False,
        callback=_store,
        help=f"Ask what `redrive context` knows under this name; {LOCAL!r} is the database of the settings.",
    ),
)
org_option = click.option(
    "--org",
    metavar="NAME",
    expose_value=False,
    callback=_store,
    help=f"The organization that it is about; {HOME!r} if not given.",
)


def _none_for_zero(_context: click.Context, _parameter: click.Parameter, value: int | None) -> int | None:
    """For both options: click calls the callback of either one, whichever was given."""
    return value or None


limit_option = add_options(
    click.option(
        "--limit",
        "limit",
        type=click.IntRange(0),
        default=DEFAULT_LIMIT,
        show_default=True,
        callback=_none_for_zero,
        help="The most to show; 0 is all.",
    ),
    click.option(
        "--all",
        "limit",
        flag_value=0,
        type=int,
        callback=_none_for_zero,
        help="All of them, however many there are.",
    ),
)
output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    default=None,
    help="How to write it; by default a table on a terminal, else plain lines.",
)
ids_argument = click.argument("ids", nargs=-1, required=True, metavar="ID...")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only say what would be done.")
reason_option = click.option("--reason", default="", help="Why; it is kept in the audit.")
timeout_option = click.option(
    "--timeout", type=DURATION, metavar="LENGTH", help="Wait no longer than this, such as 10m."
)
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
