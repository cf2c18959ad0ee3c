"""The command line: one module for each noun."""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    try:
        from redrive.cli.program import run  # click is loaded for the command line only

        sys.exit(run(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:  # also while all of it is being loaded
        sys.exit(INTERRUPTED)
