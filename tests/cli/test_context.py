"""Contexts: names for servers, no secret on disk; and what a command reaches (UI.md, security baseline)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Command

from redrive.cli.contexts import Context, Contexts
from redrive.cli.over_http import RemoteApi, checked_address
from redrive.errors import InvalidValueError, RedriveError

SERVER = "https://redrive.example.com"


def kept(tmp_path: Path) -> str:
    return (tmp_path / "config" / "redrive" / "contexts.toml").read_text()


def test_from_adding_one_to_forgetting_it(redrive: Command, tmp_path: Path) -> None:
    assert redrive("context", "add", "production", "--server", f"{SERVER}/", "--use").code == 0
    rows = json.loads(redrive("context", "list", "-o", "json").out)
    assert [(row["name"], row["current"], row["server"]) for row in rows] == [
        ("local", False, None),
        ("production", True, SERVER),
    ]
    assert redrive("context", "use", "local").code == 0
    assert Contexts().current == "local"
    redrive("context", "use", "production")
    assert redrive("context", "remove", "production").code == 0
    assert (Contexts().current, Contexts().known) == ("local", {})


def test_what_is_only_to_be_said_is_not_done(redrive: Command, tmp_path: Path) -> None:
    assert redrive("context", "add", "production", "--server", SERVER, "--dry-run") == (
        0,
        "",
        "Would add the context 'production'.\n",
    )
    assert not (tmp_path / "config").exists()


def test_keys_are_not_kept(redrive: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_API_KEY", "rdk_secret")
    monkeypatch.setenv("PRODUCTION_KEY", "rdk_another")
    redrive("context", "add", "one", "--server", SERVER)
    redrive("context", "add", "two", "--server", SERVER, "--key-variable", "PRODUCTION_KEY")
    redrive("context", "add", "three", "--server", SERVER, "--key-command", "printf rdk_%s printed")
    contexts = Contexts()
    assert [contexts.get(name).key() for name in ("one", "two", "three")] == [
        "rdk_secret",
        "rdk_another",
        "rdk_printed",
    ]
    assert "rdk_secret" not in kept(tmp_path)
    assert "rdk_another" not in kept(tmp_path)


@pytest.mark.parametrize("command", ["false", "printf ''", "no-such-program-here", "'"])
def test_a_command_that_prints_no_key(command: str) -> None:
    with pytest.raises(RedriveError, match="the command for the key"):
        Context(SERVER, key_command=command).key()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("add", "local", "--server", SERVER), 2, "cannot be the name of a context"),
        (("add", "a b", "--server", SERVER), 2, "cannot be the name of a context"),
        (("add", "x"), 2, "A context is a --server or a --config"),
        (("add", "x", "--server", "redrive.example.com"), 2, "is no address of a server"),
        (("add", "x", "--server", "https://me:secret@host"), 2, "must not hold a secret"),
        (("use", "nowhere"), 3, "there is no context 'nowhere'"),
        (("remove", "nowhere"), 3, "there is no context 'nowhere'"),
    ],
)
def test_what_cannot_be(redrive: Command, arguments: tuple[str, ...], code: int, told: str) -> None:
    ended = redrive("context", *arguments)
    assert ended.code == code
    assert told in ended.err
    assert "secret@" not in ended.err


def test_a_suggestion(redrive: Command) -> None:
    redrive("context", "add", "production", "--server", SERVER)
    assert "did you mean 'production'?" in redrive("context", "use", "prodcution").err


def test_a_file_that_somebody_has_written_wrongly(redrive: Command, tmp_path: Path) -> None:
    file = tmp_path / "config" / "redrive" / "contexts.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[contexts.one]\nsever = "x"\n')
    ended = redrive("context", "list")
    assert (ended.code, ended.out) == (2, "")
    assert "'sever', which is unknown" in ended.err


def test_a_context_with_a_file_of_settings(redrive: Command, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('database_url = "sqlite:///other.db"\n')
    redrive("context", "add", "other", "--config", str(tmp_path / "other.toml"))
    assert redrive("org", "list", "--context", "other").code == 0
    assert (tmp_path / "other.db").exists()
    assert not (tmp_path / "redrive.db").exists()


def test_a_server_has_no_organization_to_choose(redrive: Command) -> None:
    ended = redrive("org", "list", "--server", SERVER, "--org", "acme")
    assert ended.code == 2
    assert "--org is for a database" in ended.err


def test_a_key_is_not_sent_in_the_clear() -> None:
    with pytest.raises(InvalidValueError, match="neither https nor on this machine"):
        RemoteApi("http://redrive.example.com", "rdk_x")
    RemoteApi("http://redrive.example.com", "rdk_x", plain_http=True)
    RemoteApi("http://127.0.0.1:8400", "rdk_x")
    RemoteApi("http://redrive.example.com", None)


@pytest.mark.parametrize("text", ["ftp://host", "https://", "https://host?x=1", "https://host#x", "host"])
def test_no_address(text: str) -> None:
    with pytest.raises(InvalidValueError):
        checked_address(text)


def test_a_database_that_is_not_there_is_not_made_by_looking(redrive: Command, tmp_path: Path) -> None:
    ended = redrive("status")
    assert ended.code == 3
    assert "there is no database redrive.db" in ended.err
    assert not (tmp_path / "redrive.db").exists()


def test_commands_are_completed(redrive: Command) -> None:
    for shell in ("bash", "zsh", "fish"):
        ended = redrive("completion", shell)
        assert ended.code == 0
        assert "_REDRIVE_COMPLETE" in ended.out
    assert redrive("completion", "tcsh").code == 2


def test_help_lists_every_command_in_a_section(redrive: Command) -> None:
    ended = redrive("--help")
    assert ended.code == 0
    for line in ("Failed work:", "  dlq ", "  replay ", "  worker ", "  completion "):
        assert line in ended.out


def test_a_command_that_is_not_there(redrive: Command) -> None:
    ended = redrive("wroker")
    assert ended.code == 2
    assert "There is no command 'wroker'; did you mean 'worker'?" in ended.err
