"""Commands that pages and messages offer for copying: they exist, and accept the offered arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.cases import loop_over

from redrive.cli.options import GlobalOptions
from redrive.cli.program import program
from redrive.server.admin.dead_letters import ListRequest, Sort, View
from redrive.server.admin.replays import command_of

SOURCE = Path(__file__).parents[2] / "src" / "redrive"
TEMPLATES = SOURCE / "server" / "admin" / "templates"
ID = "1a1e28b919a00008a4d531844d8b2a1d"

_VALUE = re.compile(r"\{\{.*?\}\}")
_OFFERED = re.compile(r'(?<!" )\b(redrive [a-z]+[^"<\n]*)"( ~ [\w.]+)?')
_KEY = " (c)"
_NAMED = re.compile(r"`redrive ((?:[a-z]+ ?)+)")
_SUGGESTED = re.compile(r'"redrive ((?:[a-z]+ ?)+)')
_SUGGESTING = ("cli", "demo", "doctor")
"""Packages in which a string that starts with "redrive" is a command to run next."""


def parse(command: str) -> click.Context:
    """Parse a command as the program does, without executing it."""
    name, *words = shlex.split(command)
    assert name == "redrive"
    context = program.make_context("redrive", words, obj=GlobalOptions())
    found: click.Command = program
    while isinstance(found, click.Group):
        verb, command_found, rest = found.resolve_command(context, [*context._protected_args, *context.args])
        assert command_found is not None, verb
        found, context = command_found, command_found.make_context(verb, rest, parent=context)
    return context


def offered_by_pages() -> Iterator[str]:
    for file in sorted(TEMPLATES.rglob("*.html")):
        for text, joined in _OFFERED.findall(file.read_text()):
            yield (_VALUE.sub(ID, text) + (ID if joined else "")).removesuffix(_KEY).strip()


def named_in_messages() -> Iterator[tuple[str, str]]:
    for file in sorted(SOURCE.rglob("*.py")):
        suggests = file.relative_to(SOURCE).parts[0] in _SUGGESTING
        for pattern in (_NAMED, _SUGGESTED) if suggests else (_NAMED,):
            for found in pattern.findall(file.read_text()):
                yield file.name, found.strip()


def test_there_are_some() -> None:
    """The next tests would pass without any commands."""
    offered = list(offered_by_pages())
    assert len(offered) > 12
    assert f"redrive replay start {ID}" in offered
    assert "redrive status" in offered
    assert len(list(named_in_messages())) > 30
    assert ("work.py", "run list is") in named_in_messages()


@loop_over("command", sorted(set(offered_by_pages())))
def test_pages(command: str) -> None:
    parse(command)


@pytest.mark.parametrize("query", ["is:open", 'is:open -step:charge "no answer"', "it's:open"])
@pytest.mark.parametrize(("view", "sort"), [(View.GROUPS, Sort.LAST_SEEN), (View.FLAT, Sort.NEWEST)])
def test_the_list_of_dead_letters(view: View, sort: Sort, query: str) -> None:
    assert parse(ListRequest(query, view, sort, None).command).params["query"] == query


@pytest.mark.parametrize("query", ["is:failed", '-workflow:checkout "no answer"'])
def test_the_list_of_runs(query: str) -> None:
    assert parse(f"redrive run list {shlex.quote(query)}").params["query"] == query


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"ids": [ID, ID]}, "ids"),
        ({"query": '-is:open "no answer"'}, "query"),
        ({"group": f"v1:{ID}"}, "group"),
    ],
)
def test_the_dialog_of_a_replay(body: dict[str, object], name: str) -> None:
    params = parse(command_of(body)).params
    given = params[name]
    assert (list(given) if name == "ids" else given) == body[name]


@loop_over(("file", "words"), sorted(set(named_in_messages())))
def test_messages(file: str, words: str) -> None:
    """For commands in prose, the test checks only that they exist."""
    context = click.Context(program)
    first, *others = words.split()
    found = program.get_command(context, first)
    assert found is not None
    if isinstance(found, click.Group) and others:
        assert found.get_command(context, others[0]) is not None
