"""The commands in sections, each imported when it is needed: most take longer to load than to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

Sections = Mapping[str, Sequence[str]]


class LazyGroup(click.Group):
    """A command is the attribute of its own name in a module of its own name."""

    def __init__(self, *arguments: Any, sections: Sections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._sections = sections

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in self._sections.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        found: click.Command = getattr(import_module(f"redrive.cli.{cmd_name}"), cmd_name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = get_close_matches(args[0], self.list_commands(ctx), n=1)
            meant = f"did you mean {near[0]!r}?" if near else "`redrive --help` lists all that there are"
            raise click.UsageError(f"There is no command {args[0]!r}; {meant}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, self.list_commands(ctx)))
        for section, names in self._sections.items():
            with formatter.section(section):
                formatter.write_dl([(f"{name:{longest}}", self._help(ctx, name)) for name in names])

    def _help(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(80)
