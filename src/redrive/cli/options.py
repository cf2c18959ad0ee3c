"""Options that every command has: settings, the server or context, and --debug."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from redrive.settings import SETTINGS, Argument, Settings

Function = TypeVar("Function", bound=Callable[..., Any])

_SECRETS = frozenset(setting.name for setting in SETTINGS if setting.secret)


@dataclass(slots=True)
class GlobalOptions:
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


def settings_options(function: Function) -> Function:
    """Add --config, --set and --debug, which the program has too."""
    for option in (_debug, _set, _config):
        function = option(function)
    return function


def _take_config(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.ensure_object(GlobalOptions).config = value


def _take_settings(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> None:
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


def _take_debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        context.ensure_object(GlobalOptions).debug = True


_config = click.option(
    "--config",
    metavar="FILE",
    expose_value=False,
    callback=_take_config,
    help="A file with settings (TOML or YAML), instead of the one that REDRIVE_CONFIG names.",
)
_set = click.option(
    "--set",
    metavar="NAME=VALUE",
    multiple=True,
    expose_value=False,
    callback=_take_settings,
    help="A setting for this command; wins over the file and the environment. Not for secrets.",
)
_debug = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_take_debug,
    help="If something goes wrong, show where in the program.",
)
