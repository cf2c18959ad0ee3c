"""Command classes: groups that suggest a command for a typo, and commands whose arguments are a query."""

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
"""Names that other programs use for our commands; the command is suggested if the group has it."""

_NEGATED_TERM = re.compile(r"-[^-\s].*[:\s]", re.DOTALL)
"""A term such as -step:charge. No option contains a colon or a space."""


class CommandGroup(click.Group):
    """Lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and not args[0].startswith("-") and args[0] not in known:
            otherwise = f"run `{ctx.command_path} --help` to list the commands"
            meant = suggest(args[0], known, aliases=SYNONYMS, otherwise=otherwise)
            raise click.UsageError(f"Unknown command {args[0]!r}; {meant}", ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(CommandGroup):
    """Imports a command on first use: `status` from its own module, `member.org` from `member`."""

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
    """Treats negated terms, such as -step:charge, as part of the query instead of as options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        terms = [word for word in args[:end] if _NEGATED_TERM.match(word)]
        others = [word for word in args[:end] if not _NEGATED_TERM.match(word)]
        return super().parse_args(ctx, [*others, "--", *terms, *args[end + 1 :]])


def query_argument(function: Function) -> Function:
    """Add the argument `query`: all words, joined with spaces."""
    return click.argument(
        "query",
        nargs=-1,
        metavar="[QUERY]...",
        callback=lambda _context, _parameter, words: " ".join(words),
    )(function)
