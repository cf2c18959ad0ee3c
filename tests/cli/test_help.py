"""Help and options of all commands: imperative sentences, limits, aliases and suggestions."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
import pytest
from tests.cases import loop_over
from tests.cli.conftest import Command

from redrive.cli.program import program

VERBS = {
    *("Acknowledge", "Add", "Archive", "Assign", "Cancel", "Change", "Check", "Close", "Create", "Delete"),
    *("Explain", "Export", "Find", "Follow", "Ignore", "List", "Manage", "Open", "Pause", "Plan", "Print"),
    "Read",
    *("Remove", "Reopen", "Replace", "Replay", "Resolve", "Resume", "Retry", "Return", "Revoke", "Run"),
    *("Serve", "Show", "Simulate", "Stage", "Start", "Switch", "Upgrade", "Verify"),
}


def commands(command: click.Command, name: str = "redrive") -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from commands(found, f"{name} {below}")


@loop_over(("name", "command"), list(commands(program)))
def test_help_starts_with_an_imperative_sentence(name: str, command: click.Command) -> None:
    sentence = (command.help or "").split("\n\n")[0].strip()
    assert sentence.split()[0].rstrip(",") in VERBS, f"{name}: {sentence}"
    assert sentence.endswith("."), f"{name}: {sentence}"


@loop_over(("name", "command"), list(commands(program)))
def test_every_option_is_explained(name: str, command: click.Command) -> None:
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            text = option.help or ""
            assert text[:1].isupper(), f"{name} {option.opts[0]}: {text!r}"
            assert text.endswith((".", "]")), f"{name} {option.opts[0]}: {text!r}"


@pytest.mark.parametrize("number", ["0", "-1", "abc", "1.5", ""])
def test_a_limit_is_a_number_from_1(redrive: Command, number: str) -> None:
    redrive("migrate")
    ended = redrive("run", "list", "--limit", number)
    assert (ended.code, ended.out) == (2, "")
    assert f"use a whole number of at least 1, or --all, not {number!r}" in ended.err


def test_all_is_no_limit(redrive: Command) -> None:
    redrive("migrate")
    assert redrive("run", "list", "--all", "-o", "json") == (0, "[]\n", "")


def test_a_number_out_of_bounds_names_the_bounds(redrive: Command) -> None:
    ended = redrive("dlq", "resolve", "--query", "is:open", "--max", "10001")
    assert (ended.code, "use a whole number from 1 to 10,000, not '10001'" in ended.err) == (2, True)


@pytest.mark.parametrize("command", [["run", "list"], ["dlq", "list"], ["key", "list"], ["dlq", "export"]])
def test_json_for_short(redrive: Command, command: list[str]) -> None:
    redrive("migrate")
    ended = redrive(*command, "--json")
    assert (ended.code, json.loads(ended.out)) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["queue", "pause", "mail", "--yes"], "No such option '--yes'. This command does not ask for"),
        (["queue", "pause", "mail", "-y"], "No such option '-y'. This command does not ask for"),
        (["queue", "pause", "mail", "--json"], "No such option '--json'. This command has only one output"),
        (["run", "list", "--lmit", "3"], "Did you mean '--limit'?"),
        (["run", "list", "--zzz"], "No such option '--zzz'.\n"),
    ],
)
def test_an_option_that_a_command_lacks(redrive: Command, arguments: list[str], hint: str) -> None:
    ended = redrive(*arguments)
    assert (ended.code, hint in ended.err) == (2, True), ended.err
    assert "--set" not in ended.err
