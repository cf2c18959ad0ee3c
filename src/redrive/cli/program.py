"""The program `redrive`: its commands, in sections, and its exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from redrive import __version__
from redrive.cli.commands import LazyGroup
from redrive.cli.options import GlobalOptions, server_options, settings_options
from redrive.cli.outcome import report_error
from redrive.cli.terminal import out

SECTIONS = {
    "Try it out": ("demo", "demo.drill"),
    "Run": ("worker", "serve", "migrate"),
    "Inspect": ("status", "doctor", "verify", "worker.workers", "audit"),
    "Failed work": ("dlq", "replay", "run", "policy"),
    "Events": ("stream", "events"),
    "Operate": ("queue", "breaker"),
    "Access": ("key", "member", "member.org"),
    "Configure": ("config", "context", "program.completion"),
}


class ReaderGone(Exception):  # noqa: N818 - not an error, as in `redrive dlq list | head`
    """The reader of the output closed its end of the pipe."""


class Program(LazyGroup):
    """Turns a broken pipe into `ReaderGone`; click would report an error."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise ReaderGone from None


EXITS = (
    "Exit codes: 0 success (also for an empty list), 1 error, 2 invalid argument or setting, 3 not found, "
    "4 not signed in, 5 forbidden, 6 conflict, 7 finished with failures, 8 declined, 9 timed out, "
    "130 interrupted."
)


@click.group(
    cls=Program,
    sections=SECTIONS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXITS,
)
@click.version_option(__version__, prog_name="redrive", message="%(prog)s %(version)s")
@server_options
@settings_options
def program() -> None:
    """Run background jobs, and find and replay the ones that failed.

    Commands use the configured database (see `redrive config`), or a server: --server or `redrive context`.
    To try Redrive, run `redrive demo`. To run your own jobs, start with `redrive worker --help`.
    """


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def completion(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash  redrive completion bash > ~/.local/share/bash-completion/completions/redrive
    zsh   redrive completion zsh > ~/.zfunc/_redrive      (~/.zfunc is in your fpath)
    fish  redrive completion fish > ~/.config/fish/completions/redrive.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # noqa: S101 - click supports these three
    out(found(program, {}, "redrive", "_REDRIVE_COMPLETE").source())


def run(arguments: Sequence[str]) -> int:
    """Execute a command and return its exit code."""
    _set_up_streams()
    given = GlobalOptions()
    try:
        result = program.main(list(arguments), prog_name="redrive", standalone_mode=False, obj=given)
        sys.stdout.flush()
    except (BrokenPipeError, ReaderGone):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Exception, click.Abort) as error:  # noqa: BLE001 - every error is reported
        return report_error(error, debug=given.debug)
    return result if isinstance(result, int) else 0


def _set_up_streams() -> None:
    """Replace closed streams (`>&-`) by /dev/null, and escape characters that a terminal cannot encode."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - stays open until exit
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
