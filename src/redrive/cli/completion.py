"""`redrive completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from redrive.cli.terminal import out

_CLASSES: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice(tuple(_CLASSES)))
def completion(shell: str) -> None:
    """Write the completion for a shell to stdout.

    \b
    bash  redrive completion bash > ~/.local/share/bash-completion/completions/redrive
    zsh   redrive completion zsh > ~/.zfunc/_redrive      (~/.zfunc is in your fpath)
    fish  redrive completion fish > ~/.config/fish/completions/redrive.fish
    """
    from redrive.cli.program import program

    found = _CLASSES[shell](program, {}, "redrive", "_REDRIVE_COMPLETE")
    out(found.source())
