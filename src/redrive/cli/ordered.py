"""Groups of commands, in the order in which they are told of: what is needed most comes first."""

from __future__ import annotations

import click


class OrderedGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)
