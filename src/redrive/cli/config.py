"""`redrive config`: each setting, its value, where that comes from, and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Any, NamedTuple

import click

from redrive.cli.connection import local_settings
from redrive.cli.listing import JSON
from redrive.cli.options import GlobalOptions, settings_options
from redrive.cli.output import Row, chosen, output_option, show_rows
from redrive.cli.terminal import dim, notice, out, visible
from redrive.settings import SETTINGS, Setting, Settings

COLUMNS = ("name", "value", "origin")
WIDTH = 80
NAMES = max(len(setting.name) for setting in SETTINGS) + 2


class Entry(NamedTuple):
    setting: Setting
    value: Any
    origin: str


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
    entries = [each for each in _entries(local_settings(given)) if not changed or _differs(each)]
    form = chosen(output)
    if form == "table":
        for line in _table(entries):
            out(line)
    elif form in JSON:
        show_rows([setting.as_json(value, origin) for setting, value, origin in entries], COLUMNS, form)
        return
    else:
        show_rows([_row(*each) for each in entries], COLUMNS, form)
    if not entries:
        notice("every setting has its default")


def _entries(settings: Settings) -> Iterator[Entry]:
    origins = settings.origins()
    for setting in SETTINGS:
        yield Entry(setting, getattr(settings, setting.name), origins[setting.name])


def _differs(entry: Entry) -> bool:
    return bool(entry.value != entry.setting.default)


def _row(setting: Setting, value: Any, origin: str) -> Row:
    return {"name": setting.name, "value": setting.spell(value), "origin": origin}


def _table(entries: Iterable[Entry]) -> Iterator[str]:
    for setting, value, origin in entries:
        first, *others = _wrapped(setting.spell(value))
        yield f"{setting.name:{NAMES}}{first}"
        for line in others:
            yield f"{'':{NAMES}}{line}"
        for line in _wrapped(f"{origin}; allowed: {setting.bounds}"):
            yield dim(f"{'':{NAMES}}{line}")


def _wrapped(text: str) -> list[str]:
    return wrap(visible(text), WIDTH - NAMES) or [""]
