"""Groups of commands, in the order in which they are told of: what is needed most comes first."""

from __future__ import annotations

from difflib import get_close_matches

import click

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
"""What other programs call it; said only where there is such a command, and none of the first name."""


class OrderedGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise click.UsageError(f"There is no command {args[0]!r}; {self._meant(args[0], ctx)}", ctx)
        return super().resolve_command(ctx, args)

    def _meant(self, word: str, ctx: click.Context) -> str:
        near = get_close_matches(word, self.commands, n=1)
        if SYNONYMS.get(word) in self.commands:
            near = [SYNONYMS[word]]
        return (
            f"did you mean {near[0]!r}?" if near else f"`{ctx.command_path} --help` lists all that there are"
        )
