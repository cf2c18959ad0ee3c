"""`redrive stream`: read the Redis streams of an application."""

from __future__ import annotations

import click

from redrive.cli.application import application, log_format_option, set_up_log
from redrive.cli.commands import CommandGroup
from redrive.cli.options import GlobalOptions, settings_options
from redrive.cli.terminal import notice
from redrive.words.number import plural


@click.group(cls=CommandGroup)
def stream() -> None:
    """Read Redis streams."""


@stream.command()
@click.argument("target", metavar="MODULE:ATTRIBUTE")
@click.option("--stream", "names", multiple=True, metavar="NAME", help="Only read this stream; repeatable.")
@log_format_option
@settings_options
@click.pass_obj
def consume(given: GlobalOptions, target: str, names: tuple[str, ...], log_format: str | None) -> None:
    """Read streams until SIGTERM or Ctrl-C, and store their entries as events.

    MODULE:ATTRIBUTE is your application, such as shop.work:app, imported from this directory. Any number of
    these processes may run. The runs of projectors are executed by workers.
    """
    app = application(target, given, ())
    from redrive.streams.serve import run_consumers, streams_of  # slow to import

    set_up_log(log_format)
    streams = streams_of(app, names)
    notice(f"Reading {plural(len(streams), 'stream')}. Press Ctrl-C to stop.")
    run_consumers(app, names)
