"""Generates the page of all commands from their help texts and parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
from docs.reference.generate.page import NOTE, cell, code, page, sentence, table

from redrive.cli.program import program

COMMON = ("config", "set", "debug", "server", "context", "org", "help")
"""Options of nearly every command: described once."""

Row = tuple[str, str]


def command_page() -> str:
    context = click.Context(program, info_name="redrive")
    common = _common(context)
    return page(
        "# Commands",
        NOTE,
        "The help of all commands on one page. For an introduction, see "
        "[the command line](../guides/command-line.md).",
        "## Common options",
        table(("option", "meaning"), common),
        *_described(program, context, 2, common),
    )


def walk(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield a command and all its subcommands, in the order of its help."""
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from walk(below, click.Context(below, parent=context, info_name=name))


def _described(
    command: click.Command, context: click.Context, level: int, common: list[Row]
) -> Iterator[str]:
    for each, its in walk(command, context):
        depth = its.command_path.count(" ")
        if depth == 0:
            continue
        yield f"{'#' * min(level + depth - 1, 4)} {its.command_path}"
        yield _help(each)
        if not isinstance(each, click.Group):
            yield f"```text\n{its.command_path} {' '.join(each.collect_usage_pieces(its))}\n```"
        # The same name can have another meaning: --server of `redrive context add`.
        if rows := [row for option in each.params if (row := _row(option, its)) not in common]:
            yield table(("argument", "meaning"), rows)


def _help(command: click.Command) -> str:
    paragraphs = [part for part in re.split(r"\n\s*\n", command.help or "") if part.strip()]
    return "\n\n".join(_paragraph(part) for part in paragraphs)


def _paragraph(text: str) -> str:
    lines = text.replace("\f", "").splitlines()
    if lines[0].strip() == "\b":
        return "```text\n" + "\n".join(line.rstrip() for line in lines[1:]) + "\n```"
    return sentence(cell(text).replace("\\|", "|"))


def _common(context: click.Context) -> list[Row]:
    found: dict[str, Row] = {}
    for command, its in walk(program, context):
        for option in [*command.params, command.get_help_option(its)]:
            if option is not None and option.name in COMMON:
                found.setdefault(option.name, _row(option, its))
    return [found[name] for name in COMMON if name in found]


def _row(option: click.Parameter, context: click.Context) -> Row:
    if isinstance(option, click.Option):
        record = option.get_help_record(context)
        names, meaning = record or (option.opts[0], "")
        return code(names), cell(meaning)
    metavar = option.make_metavar(context)
    return code(metavar), cell(getattr(option, "help", None) or "")
