"""Classes of commands: groups that suggest what was meant, and commands whose arguments are a query."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

import click

from redrive.words.suggestion import suggest

Function = TypeVar("Function", bound=Callable[..., Any])
Sections = Mapping[str, Sequence[str]]

SYNONYMS = {
    "delete": "archive",
    "get": "view",
    "info": "view",
    "ls": "list",
    "redrive": "replay",
    "requeue": "replay",
    "retry": "replay",
    "run": "start",
    "show": "view",
    "stop": "cancel",
}
"""Other programs' names for our commands; suggested if a group has the command but not the synonym."""

_NEGATED_TERM = re.compile(r"-[^-\s].*[:\s]", re.DOTALL)
"""A term like -step:charge. No option has a colon or a blank in it."""


class CommandGroup(click.Group):
    """Lists its commands in the order in which they were added: the most needed first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            otherwise = f"`{ctx.command_path} --help` lists all that there are"
            meant = suggest(args[0], known, aliases=SYNONYMS, otherwise=otherwise)
            raise click.UsageError(f"There is no command {args[0]!r}; {meant}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(CommandGroup):
    """Imports a command when it is used: `status` from the module of its name, `member.org` from `member`."""

    def __init__(self, *arguments: Any, sections: Sections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._sections = {
            section: {place.rpartition(".")[2]: place.partition(".")[0] for place in places}
            for section, places in sections.items()
        }
        self._modules = {name: module for names in self._sections.values() for name, module in names.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self._import(cmd_name) if cmd_name in self._modules else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, self._modules))
        for section, names in self._sections.items():
            with formatter.section(section):
                formatter.write_dl(
                    [(f"{name:{longest}}", self._import(name).get_short_help_str(80)) for name in names]
                )

    def _import(self, name: str) -> click.Command:
        command: click.Command = getattr(import_module(f"redrive.cli.{self._modules[name]}"), name)
        return command


class QueryCommand(click.Command):
    """Takes negated terms, such as -step:charge, for parts of the query and not for options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        terms = [word for word in args[:end] if _NEGATED_TERM.match(word)]
        others = [word for word in args[:end] if not _NEGATED_TERM.match(word)]
        return super().parse_args(ctx, [*others, "--", *terms, *args[end + 1 :]])


def query_argument(function: Function) -> Function:
    """Add the argument `query`: all words, joined into one text."""
    return click.argument(
        "query",
        nargs=-1,
        metavar="[QUERY]...",
        callback=lambda _context, _parameter, words: " ".join(words),
    )(function)
