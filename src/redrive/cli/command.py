"""The command `redrive`: what there is, and how it ends."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

import click

from redrive import __version__
from redrive.cli.config import config
from redrive.cli.given import Given, settings_options
from redrive.cli.key import key
from redrive.cli.member import member
from redrive.cli.org import org
from redrive.cli.outcome import told
from redrive.cli.serve import serve


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="redrive", message="%(prog)s %(version)s")
@settings_options
def program() -> None:
    """No failed work is ever lost.

    Works on the database of the settings: see `redrive config`. Commands that look exit with 0, also when
    there is nothing to see; otherwise 1 is an error, 2 a wrong argument or setting, 3 not found, 5 not
    allowed, 6 a conflict, 8 declined, 130 interrupted.
    """


for each in (serve, config, key, member, org):
    program.add_command(each)


def run(arguments: Sequence[str]) -> int:
    """Execute a command; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    given = Given()
    try:
        result = program.main(list(arguments), prog_name="redrive", standalone_mode=False, obj=given)
    except (Exception, click.Abort) as error:  # noqa: BLE001 - an operator is told what it is, whatever it is
        return told(error, debug=given.debug)
    return result if isinstance(result, int) else 0
