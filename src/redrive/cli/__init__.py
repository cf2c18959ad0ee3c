"""The command line: one module per noun."""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    try:
        from redrive.cli.program import run  # import click only for the command line

        sys.exit(run(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # also during the import
        sys.exit(INTERRUPTED)
