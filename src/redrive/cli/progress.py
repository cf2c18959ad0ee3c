"""Progress bars on stderr, where somebody looks at it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from redrive.cli.terminal import has_rich, wants_color

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

BAR_WIDTH = 30


def can_draw() -> bool:
    return sys.stderr.isatty() and has_rich()


def progress_bar(*columns: ProgressColumn | str) -> Progress:
    """A bar of these columns; what is written to stdout and stderr meanwhile is left alone."""
    from rich import progress as rich_progress

    return rich_progress.Progress(*columns, console=_console(), redirect_stdout=False, redirect_stderr=False)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function that is called with how many more are done; without a total the bar only moves."""
    if not can_draw():
        yield lambda number: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label, markup=False), BarColumn(BAR_WIDTH), MofNCompleteColumn())
    with progress_bar(*columns, TimeRemainingColumn()) as bar:
        task = bar.add_task(label, total=total)
        yield lambda number: bar.advance(task, number)


@contextmanager
def activity() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows what is done now, on one line that the next one replaces."""
    if not can_draw():
        yield lambda text: None
        return
    from rich.status import Status
    from rich.text import Text

    with Status("", console=_console()) as status:
        yield lambda text: status.update(Text(text, no_wrap=True, overflow="ellipsis"))


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True, color_system="auto" if wants_color() else None, highlight=False)
