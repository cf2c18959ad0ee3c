"""Progress of long work: a bar on stderr, where somebody looks at it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

WIDTH = 30


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Gives a function to be told how many more were done."""
    if not sys.stderr.isatty():
        yield lambda number: None
        return
    with click.progressbar(
        length=total or 0,
        label=label,
        file=sys.stderr,
        show_pos=True,
        show_eta=total is not None,
        width=WIDTH,
    ) as bar:
        yield bar.update
