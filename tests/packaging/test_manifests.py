"""Everything that `deploy/` starts exists: commands, settings, and enough time to stop."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click
import pytest
from tests.cases import loop_over
from tests.packaging.building import DEPLOY, made
from tests.packaging.containerfile import every, stages
from tests.packaging.manifests import README, UNITS, Command, commands, of_redrive, pods, unit, variables

from redrive import Settings, __version__
from redrive.cli.options import GlobalOptions
from redrive.cli.program import program
from redrive.settings import FILE_VARIABLE, SETTINGS

YAMLLINT = Path(sys.executable).parent / "yamllint"
COMMANDS = sorted(set(commands()))
GIVING_BACK = 5.0
"""Seconds that a process may take to end after its grace."""

USED = {"encryption", "metrics", "postgres", "server"}
"""Extras for PostgreSQL and the server, for /metrics, and for the setting `encryption_keys`."""

GRACE = {"server": Settings().server_drain_sec, "worker": Settings().worker_grace_sec}


def test_all_yaml_is_linted() -> None:
    rules = Path(__file__).parent / "yamllint.yaml"
    assert made(YAMLLINT, "--strict", "--config-file", rules, DEPLOY) == ""


def test_commands_are_found_everywhere() -> None:
    started = {each.words[0] for each in COMMANDS}
    assert {"serve", "worker", "migrate", "member"} <= started
    assert {each.where.split()[0] for each in COMMANDS} >= {
        "Containerfile",
        "compose",
        "kubernetes",
        "README.md",
    }


@loop_over("written", COMMANDS)
def test_every_command_exists(written: Command) -> None:
    """The command accepts the given options and arguments."""
    command: click.Command | None = program
    context = click.Context(program, info_name="redrive", obj=GlobalOptions())
    words = list(written.words)
    while isinstance(command, click.Group):
        command = command.get_command(context, words.pop(0))
    assert command is not None
    command.make_context(command.name, words, parent=context)


def test_every_setting_is_known() -> None:
    known = {each.environment for each in SETTINGS} | {FILE_VARIABLE}
    written = set(variables())
    assert {"REDRIVE_CONFIG", "REDRIVE_SERVER_HOST"} <= {name for _, name in written}
    assert not {each for each in written if each[1] not in known}


@pytest.mark.parametrize("role", ["server", "worker"])
def test_there_is_time_to_finish(role: str) -> None:
    """SIGKILL comes after the grace, everywhere."""
    pod = pods()[f"redrive-{role}"]
    [container] = pod["containers"]
    before = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    [path] = [each for each in UNITS if role in each.name]
    given = {
        "compose": seconds(of_redrive()[role]["stop_grace_period"]),
        "kubernetes": pod["terminationGracePeriodSeconds"] - before,
        "systemd": seconds(unit(path)["TimeoutStopSec"][0]),
    }
    assert not {where: time for where, time in given.items() if time < GRACE[role] + GIVING_BACK}


def test_every_deployment_sets_the_version_of_the_code() -> None:
    written = {where.partition("/")[0] for where, name in variables() if name == "REDRIVE_CODE_VERSION"}
    assert written >= {"compose.yaml", "kubernetes", "systemd", "README.md"}


def test_all_that_is_used_is_installed() -> None:
    """By the image, and by the instructions to install the wheel of this version."""
    wheels = re.findall(r"redrive-([\d.]+)-py3-none-any\.whl\[([\w,]+)\]", README.read_text())
    [image] = [each.text for each in every(stages(DEPLOY / "Containerfile")[0], "ARG")]
    assert wheels
    for version, extras in wheels:
        assert version == __version__
        assert USED <= set(extras.split(",")) <= set(image.partition("=")[2].split(","))


def seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+)s?", text)
    assert found is not None, text
    return float(found[1])
