"""`redrive config`: each setting with its value, its origin and its allowed values."""

from __future__ import annotations

import click

from redrive.cli.connection import local_settings
from redrive.cli.options import GlobalOptions, output_option, settings_options
from redrive.cli.output import JSON, chosen, screen, show_rows
from redrive.cli.terminal import notice
from redrive.settings import SETTINGS

COLUMNS = ("name", "value", "origin")


@click.command()
@click.option("--changed", is_flag=True, help="Show only settings that differ from their defaults.")
@output_option
@settings_options
@click.pass_obj
def config(given: GlobalOptions, output: str | None, changed: bool) -> None:
    """Show the settings, and where each value comes from.

    Precedence, lowest to highest: default, file, environment (REDRIVE_ and the name in capitals), argument.
    Secrets are not shown.
    """
    settings = local_settings(given)
    origins = settings.origins()
    values = {setting: getattr(settings, setting.name) for setting in SETTINGS}
    wanted = [setting for setting, value in values.items() if not changed or value != setting.default]
    form = chosen(output)
    if form == "table":
        width = max(len(setting.name) for setting in SETTINGS)
        for setting in wanted:
            bounds = (f"{origins[setting.name]}; allowed: {setting.bounds}", "dim")
            value = setting.spell(values[setting])
            screen().columns([(setting.name, value), ("", bounds)], widths=(width,), indent=0)
    elif form in JSON:
        rows = [setting.as_json(values[setting], origins[setting.name]) for setting in wanted]
        show_rows(rows, COLUMNS, form)
        return
    else:
        texts = [(setting.name, setting.spell(values[setting]), origins[setting.name]) for setting in wanted]
        show_rows((dict(zip(COLUMNS, row, strict=True)) for row in texts), COLUMNS, form)
    if not wanted:
        notice("All settings have their default values.")
