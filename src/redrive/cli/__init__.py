"""The command line: a door for operators. One module a noun."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    from redrive.cli.command import run  # click is loaded for the command line only

    sys.exit(run(sys.argv[1:] if arguments is None else arguments))
