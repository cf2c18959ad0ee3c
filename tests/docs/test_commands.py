"""Every `redrive` command on a page exists, and accepts the given options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.cases import loop_over

from redrive.cli.program import program

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
TOLD = [page for page in PAGES if page.parent.name != "internals"]  # code has other names
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(redrive (?:[a-z]+ )*[a-z][^`]*)`")
_CALL = re.compile(r"(?:^|[|;&(])\s*(?:\.venv/bin/)?redrive\s+(?P<rest>[^|;&>)#\n]*)", re.MULTILINE)


def typed(text: str) -> Iterator[str]:
    for block in _BLOCK.findall(text):
        for found in _CALL.finditer(block.replace("\\\n", " ")):
            before = block[: found.start()].rpartition("\n")[2]
            if "#" not in before and "pip install" not in before:
                yield found["rest"].strip()


def named(text: str) -> Iterator[str]:
    """Yield the complete commands in running text."""
    for found in _INLINE.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
        yield found.removeprefix("redrive ")


def parse(arguments: list[str]) -> None:
    """Parse a command like click, without executing it."""
    command: click.Command = program
    context = click.Context(program, info_name="redrive", obj=None)
    while isinstance(command, click.Group) and arguments:
        name = arguments[0]
        below = command.get_command(context, name)
        assert below is not None, f"there is no command {context.command_path} {name}"
        command, arguments = below, arguments[1:]
        context = click.Context(command, parent=context, info_name=name, allow_interspersed_args=True)
    if isinstance(command, click.Group):
        return
    parser = command.make_parser(context)
    values, rest, _ = parser.parse_args(args=list(arguments))
    assert not rest, f"{context.command_path} does not take {rest}"
    for argument in [each for each in command.params if isinstance(each, click.Argument)]:
        _check(argument, values.get(argument.name or ""), context)


def _check(argument: click.Argument, given: object, context: click.Context) -> None:
    """Reject a query in place of ids, and ids in place of a query."""
    values = list(given) if isinstance(given, tuple) else [given]
    for value in [each for each in values if isinstance(each, str) and ":" in each]:
        named = argument.make_metavar(context)
        assert re.search("QUERY|MODULE|TEXT|PAYLOAD", named), (
            f"{context.command_path} takes no {value} as {named}"
        )


@loop_over("page", PAGES)
def test_the_commands_of(page: Path) -> None:
    for line in typed(page.read_text()):
        try:
            parse(shlex.split(line))
        except click.UsageError as error:
            pytest.fail(f"redrive {line}: {error.format_message()}")


@loop_over("page", TOLD)
def test_the_commands_that_are_named_on(page: Path) -> None:
    for line in named(page.read_text()):
        words = [word for word in line.split() if re.fullmatch(r"[a-z][a-z-]*", word)]
        command: click.Command = program
        context = click.Context(program, info_name="redrive")
        for word in words:
            if not isinstance(command, click.Group):
                break
            below = command.get_command(context, word)
            assert below is not None, f"there is no command {context.command_path} {word}"
            command, context = below, click.Context(below, parent=context, info_name=word)


def test_a_mistake_is_found() -> None:
    assert list(typed("```sh\nkey=$(redrive key create ci --role admin)\n```\n")) == [
        "key create ci --role admin"
    ]
    parse(["key", "create", "ci", "--role", "admin"])
    with pytest.raises(AssertionError, match="no command redrive kye"):
        parse(["kye", "create"])
    with pytest.raises(AssertionError, match="takes no is:open"):
        parse(["dlq", "resolve", "is:open"])
    with pytest.raises(click.UsageError):
        parse(["key", "create", "ci", "--rule", "admin"])
