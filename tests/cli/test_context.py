"""Contexts: names of servers, without secrets on disk; and what a command connects to."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from tests.cli.conftest import Command

from redrive.cli.context import ContextFile, NamedContext
from redrive.cli.http_transport import HttpTransport, checked_address
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
    assert ContextFile().current == "local"
    redrive("context", "use", "production")
    assert redrive("context", "remove", "production").code == 0
    assert (ContextFile().current, ContextFile().known) == ("local", {})


def test_a_dry_run_does_not_execute(redrive: Command, tmp_path: Path) -> None:
    assert redrive("context", "add", "production", "--server", SERVER, "--dry-run") == (
        0,
        "",
        "Would add context 'production'.\n",
    )
    assert not (tmp_path / "config").exists()


def test_keys_are_not_kept(redrive: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_API_KEY", "rdk_secret")
    monkeypatch.setenv("PRODUCTION_KEY", "rdk_another")
    redrive("context", "add", "one", "--server", SERVER)
    redrive("context", "add", "two", "--server", SERVER, "--key-variable", "PRODUCTION_KEY")
    redrive("context", "add", "three", "--server", SERVER, "--key-command", "printf rdk_%s printed")
    contexts = ContextFile()
    assert [contexts.get(name).key() for name in ("one", "two", "three")] == [
        "rdk_secret",
        "rdk_another",
        "rdk_printed",
    ]
    assert "rdk_secret" not in kept(tmp_path)
    assert "rdk_another" not in kept(tmp_path)


@pytest.mark.parametrize("command", ["false", "printf ''", "no-such-program-here", "'"])
def test_a_command_that_prints_no_key(command: str) -> None:
    with pytest.raises(RedriveError, match="the key command"):
        NamedContext(SERVER, key_command=command).key()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("add", "local", "--server", SERVER), 2, "is not a valid context name"),
        (("add", "a b", "--server", SERVER), 2, "is not a valid context name"),
        (("add", "x"), 2, "Pass either --server or --config."),
        (("add", "x", "--server", "redrive.example.com"), 2, "is not a server URL"),
        (("add", "x", "--server", "https://me:secret@host"), 2, "must not contain a password"),
        (("use", "nowhere"), 3, "no context is named 'nowhere'"),
        (("remove", "nowhere"), 3, "no context is named 'nowhere'"),
        (("remove", "local"), 2, "it can't be removed"),
    ],
)
def test_invalid_combinations(redrive: Command, arguments: tuple[str, ...], code: int, told: str) -> None:
    ended = redrive("context", *arguments)
    assert ended.code == code
    assert told in ended.err
    assert "secret@" not in ended.err


def test_a_suggestion(redrive: Command) -> None:
    redrive("context", "add", "production", "--server", SERVER)
    assert "did you mean 'production'?" in redrive("context", "use", "prodcution").err


def test_a_file_with_errors(redrive: Command, tmp_path: Path) -> None:
    file = tmp_path / "config" / "redrive" / "contexts.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[contexts.one]\nsever = "x"\n')
    ended = redrive("context", "list")
    assert (ended.code, ended.out) == (2, "")
    assert "unknown field 'sever'" in ended.err


def test_a_context_with_a_file_of_settings(redrive: Command, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('database_url = "sqlite:///other.db"\n')
    redrive("context", "add", "other", "--config", str(tmp_path / "other.toml"))
    assert redrive("org", "create", "acme", "--context", "other").code == 0
    assert (tmp_path / "other.db").exists()
    assert not (tmp_path / "redrive.db").exists()


def test_a_server_has_no_organization_to_choose(redrive: Command) -> None:
    ended = redrive("org", "list", "--server", SERVER, "--org", "acme")
    assert ended.code == 2
    assert "--org only works with a database" in ended.err


def test_a_key_is_not_sent_in_the_clear() -> None:
    with pytest.raises(InvalidValueError, match="would receive the API key unencrypted"):
        HttpTransport("http://redrive.example.com", "rdk_x")
    HttpTransport("http://redrive.example.com", "rdk_x", plain_http=True)
    HttpTransport("http://127.0.0.1:8400", "rdk_x")
    HttpTransport("http://redrive.example.com", None)


@pytest.mark.parametrize("text", ["ftp://host", "https://", "https://host?x=1", "https://host#x", "host"])
def test_no_address(text: str) -> None:
    with pytest.raises(InvalidValueError):
        checked_address(text)


def test_a_database_that_is_not_there_is_not_made_by_looking(redrive: Command, tmp_path: Path) -> None:
    ended = redrive("status")
    assert ended.code == 3
    assert "database redrive.db does not exist" in ended.err
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
    assert "Unknown command 'wroker'; did you mean 'worker'?" in ended.err


def test_the_environment_applies_to_every_command(
    redrive: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for commands that use the database directly: they must not migrate another one by mistake."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(f'database_url = "sqlite:///{name}.db"\n')
        redrive("context", "add", name, "--config", f"{name}.toml")
    redrive("context", "use", "one")

    def told(*arguments: str) -> list[str]:
        words = ("one.db", "two.db", "redrive.db")
        ended = redrive(*arguments)
        return [each for each in words if each in ended.out + ended.err]

    looks = (
        ("migrate", "--dry-run"),
        ("dlq", "list"),
        ("policy", "list", "--stored"),
        ("verify",),
        ("doctor",),
    )
    assert [told(*each) for each in looks] == [["one.db"]] * len(looks)
    assert told("config", "--changed", "-o", "csv") == ["one.db"]
    monkeypatch.setenv("REDRIVE_CONTEXT", "two")
    assert [told(*each) for each in looks] == [["two.db"]] * len(looks)
    monkeypatch.setenv("REDRIVE_CONTEXT", "local")
    assert [told(*each) for each in looks] == [["redrive.db"]] * len(looks)
    overridden = ("--context", "one", "--set", "retention_days=30")
    assert [told(*overridden, *each) for each in looks] == [["one.db"]] * len(looks)


def test_a_context_is_found_from_everywhere_and_read_by_its_owner_alone(
    redrive: Command, tmp_path: Path
) -> None:
    (tmp_path / "one.toml").write_text("")
    redrive("context", "add", "one", "--config", "one.toml")
    assert ContextFile().get("one").config == str(tmp_path / "one.toml")
    assert stat.S_IMODE(ContextFile().path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text",
    [
        "current = 5",
        "contexts = 3",
        "[contexts]\nmine = 1",
        "[contexts.mine]\nserver = 5",
        '[contexts.mine]\nserver = "http://a.example"\nplain_http = "no"',
    ],
)
def test_a_file_with_values_of_another_kind(redrive: Command, tmp_path: Path, text: str) -> None:
    """A text taken for true would send the key in plain text."""
    file = tmp_path / "config" / "redrive" / "contexts.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    ended = redrive("context", "list")
    assert (ended.code, "contexts.toml must be" in ended.err) == (2, True)


def test_a_missing_permission_names_who_can_help(redrive: Command) -> None:
    redrive("context", "add", "one", "--server", SERVER)
    ended = redrive("--server", SERVER, "--context", "one", "dlq", "list")
    assert (ended.code, "use one of them" in ended.err) == (2, True)


def test_a_database_that_the_environment_names_is_meant(
    redrive: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`redrive context use` makes no difference."""
    redrive("context", "add", "production", "--server", "http://127.0.0.1:9", "--use")
    monkeypatch.setenv("REDRIVE_DATABASE_URL", "sqlite:///other.db")
    assert redrive("org", "create", "acme").code == 0
    assert (tmp_path / "other.db").exists()
    monkeypatch.setenv("REDRIVE_CONTEXT", "production")
    assert "http://127.0.0.1:9 can't be reached" in redrive("org", "list").err
