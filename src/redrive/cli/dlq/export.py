"""`redrive dlq export`: write dead letters with their details, for a program or an archive."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click

from redrive.cli.checks import confirm
from redrive.cli.client import Client
from redrive.cli.commands import QueryCommand, query_argument
from redrive.cli.connection import api_options
from redrive.cli.dlq.selection import PATH, letters, read_letter
from redrive.cli.options import NumberParam, json_option, yes_option
from redrive.cli.output import show_rows
from redrive.cli.progress import progress
from redrive.cli.table import Row
from redrive.cli.terminal import notice
from redrive.errors import InvalidValueError

PARTS = ("details", "payload", "attempts", "history", "notes", "verdict")
COLUMNS = (
    "id",
    "state",
    "workflow",
    "step",
    "queue",
    "category",
    "error_type",
    "message",
    "http_status",
    "attempts",
    "fingerprint",
    "created_at",
    "run_id",
)


def _parts(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    wanted = [part.strip() for part in text.split(",") if part.strip() not in ("", "nothing")]
    for part in wanted:
        if part not in PARTS:
            raise click.BadParameter(
                f"{part!r} is unknown; use {', '.join(PARTS)} or nothing", context, parameter
            )
    return tuple(part for part in PARTS if part in wanted)


@click.command(cls=QueryCommand)
@query_argument
@click.option(
    "--with",
    "parts",
    default="details,payload,attempts",
    show_default=True,
    callback=_parts,
    metavar="PARTS",
    help=f"Add these parts to each dead letter: {', '.join(PARTS)}, or nothing (fast).",
)
@click.option("--limit", type=NumberParam(1), metavar="N", help="Export at most N. Default: all.")
@click.option(
    "--output-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to this file instead of stdout.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(("ndjson", "json", "csv")),
    default="ndjson",
    show_default=True,
    help="Output format.",
)
@json_option
@yes_option
@api_options
def export(
    client: Client,
    query: str,
    parts: tuple[str, ...],
    limit: int | None,
    output_file: Path | None,
    output: str,
    yes: bool,
) -> None:
    """Export dead letters, with payloads and attempts.

    Oldest first. Without a QUERY, exports all dead letters, including closed ones. Secrets stay redacted. The
    file appears when it is complete.
    """
    if output == "csv":
        parts = ()
    found = client.get(f"{PATH}/count", q=query)
    total = None if found["capped"] else found["number"]
    if limit is not None:
        total = limit if total is None else min(limit, total)
    to_file = output_file is not None or not sys.stdout.isatty()
    bar = progress("Exporting", total) if to_file else nullcontext(lambda number: None)
    with _destination(output_file, yes), bar as add:
        number = show_rows(_rows(client, query, parts, limit, add), COLUMNS, output)
    notice(f"Exported {letters(number)}{f' to {output_file}' if output_file else ''}.")


def _rows(
    client: Client, query: str, parts: tuple[str, ...], limit: int | None, add: Callable[[int], None]
) -> Iterator[Row]:
    for row in client.pages(PATH, limit=limit, q=query, order="oldest"):
        yield row | read_letter(client, row["id"], parts)
        add(1)


@contextmanager
def _destination(path: Path | None, yes: bool) -> Iterator[None]:
    """Redirect stdout to a temporary file, private to the owner, that replaces `path` at the end."""
    if path is None:
        yield
        return
    if path.is_symlink():
        path = path.resolve()  # replace the target, not the link
    if path.exists():
        if not path.is_file():
            raise InvalidValueError(f"{path} is not a regular file; omit --output-file and use >")
        confirm(f"overwrite {path}", dry_run=False, yes=yes)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with _new_file(temporary) as file, redirect_stdout(file):
            yield
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _new_file(path: Path) -> Iterator[Any]:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidValueError(f"can't write to {path.parent}: {error.strerror}") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yield file
        file.flush()
        os.fsync(descriptor)
