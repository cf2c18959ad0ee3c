"""`redrive config`: each setting, its value, where that comes from, and what is allowed."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from redrive.cli.connection import local_settings
from redrive.cli.options import GlobalOptions, settings_options
from redrive.cli.output import JSON, chosen, output_option, screen, show_rows
from redrive.cli.terminal import notice
from redrive.settings import SETTINGS, Setting

COLUMNS = ("name", "value", "origin")


class SettingValue(NamedTuple):
    setting: Setting
    value: Any
    origin: str

    @property
    def text(self) -> str:
        return self.setting.spell(self.value)


@click.command()
@click.option("--changed", is_flag=True, help="Only those that differ from their defaults.")
@output_option
@settings_options
@click.pass_obj
def config(given: GlobalOptions, output: str | None, changed: bool) -> None:
    """Show the settings, and where each one comes from.

    A setting is the default, unless a file says it, unless the environment does (REDRIVE_ and its name in
    capitals), unless an argument does. Secrets are not shown.
    """
    settings = local_settings(given)
    origins = settings.origins()
    entries = [
        SettingValue(setting, getattr(settings, setting.name), origins[setting.name]) for setting in SETTINGS
    ]
    if changed:
        entries = [entry for entry in entries if entry.value != entry.setting.default]
    form = chosen(output)
    if form in JSON:
        show_rows([entry.setting.as_json(entry.value, entry.origin) for entry in entries], COLUMNS, form)
        return
    if form == "table":
        _draw(entries)
    else:
        show_rows(
            [{"name": entry.setting.name, "value": entry.text, "origin": entry.origin} for entry in entries],
            COLUMNS,
            form,
        )
    if not entries:
        notice("every setting has its default")


def _draw(entries: list[SettingValue]) -> None:
    drawn = screen()
    names = max(len(setting.name) for setting in SETTINGS)
    for entry in entries:
        bounds = (f"{entry.origin}; allowed: {entry.setting.bounds}", "dim")
        drawn.columns([(entry.setting.name, entry.text), ("", bounds)], widths=(names,), indent=0)
