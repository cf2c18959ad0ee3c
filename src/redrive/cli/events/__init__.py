"""`redrive events`: list, view, replay and rebuild the stored events of streams."""

from __future__ import annotations

import click

from redrive.cli.commands import CommandGroup
from redrive.cli.events.listing import list_events
from redrive.cli.events.rebuild import rebuild, rebuilds
from redrive.cli.events.replay import replay
from redrive.cli.events.view import view


@click.group(cls=CommandGroup)
def events() -> None:
    """Manage stored events: list, view, replay, rebuild."""


for command in (list_events, view, replay, rebuild, rebuilds):
    events.add_command(command)
