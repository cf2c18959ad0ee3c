"""`redrive config`: each value and its source, secrets masked, errors in one line (P10, M9)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Command
from tests.cli.terminal import talk

from redrive.settings import SETTINGS

KEY = "c2VjcmV0LTdjMlZqY21WMExUZGMyVmpjbVYwTFRjYWE="


def by_name(text: str) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(text)}


class TestShowing:
    def test_json_has_everything_about_every_setting(self, redrive: Command) -> None:
        ended = redrive("config", "-o", "json")
        assert (ended.code, ended.err) == (0, "")
        rows = by_name(ended.out)
        assert list(rows) == [setting.name for setting in SETTINGS]
        assert rows["server_port"] == {
            "name": "server_port",
            "value": 8400,
            "origin": "default",
            "default": 8400,
            "allowed": "a whole number from 0 to 65,535",
            "meaning": "the port that the server listens on; 0 chooses a free port",
            "variable": "REDRIVE_SERVER_PORT",
            "alias": None,
            "secret": False,
        }
        assert rows["dlq_max_size"]["value"] is None
        assert rows["database_url"]["alias"] == "DATABASE_URL"

    def test_where_each_value_comes_from(
        self, redrive: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "redrive.toml").write_text("worker_threads = 7\nserver_port = 7\n")
        monkeypatch.setenv("WORKER_CONCURRENCY", "8")
        monkeypatch.setenv("REDRIVE_SCHEMA", "jobs")
        ended = redrive(
            "config", "--config", "redrive.toml", "--set", "server_port=9", "--changed", "-o", "plain"
        )
        assert ended.code == 0
        assert ended.out.splitlines() == [
            "schema\tjobs\tREDRIVE_SCHEMA",
            "worker_concurrency\t8\tWORKER_CONCURRENCY (alias)",
            "worker_threads\t7\tfile redrive.toml",
            "server_port\t9\targument --set server_port",
        ]

    def test_the_file_that_the_environment_names(
        self, redrive: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "a.yaml").write_text("worker_threads: 7\n")
        monkeypatch.setenv("REDRIVE_CONFIG", "a.yaml")
        assert redrive("config", "--changed", "-o", "plain").out == "worker_threads\t7\tfile a.yaml\n"

    def test_options_may_stand_before_the_command_too(self, redrive: Command) -> None:
        ended = redrive(
            "--set", "server_port=9", "config", "--changed", "--set", "worker_threads=7", "-o", "plain"
        )
        assert [line.split("\t")[:2] for line in ended.out.splitlines()] == [
            ["worker_threads", "7"],
            ["server_port", "9"],
        ]

    def test_a_table_fits_on_80_columns(self, redrive: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(
            "REDRIVE_SERVER_HOSTS", ",".join(f"host-{number}.example.com" for number in range(20))
        )
        ended = redrive("config", "-o", "table")
        assert ended.code == 0
        assert max(map(len, ended.out.splitlines())) <= 80
        for setting in SETTINGS:
            assert re.search(rf"^{setting.name}\b", ended.out, re.MULTILINE)
        assert "host-19.example.com" in ended.out

    def test_nothing_has_changed(self, redrive: Command) -> None:
        assert redrive("config", "--changed", "-o", "json").out == "[]\n"
        assert redrive("config", "--changed", "-o", "plain").out == ""
        ended = redrive("config", "--changed", "-o", "table")
        assert (ended.out, ended.err) == ("", "All settings have their default values.\n")

    @pytest.mark.parametrize("output", ["table", "json", "plain"])
    def test_secrets_are_masked(self, redrive: Command, output: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """I9."""
        monkeypatch.setenv("REDRIVE_DATABASE_URL", "postgresql://app:canary-7@host/shop")
        monkeypatch.setenv("REDRIVE_OIDC_CLIENT_SECRET", "canary-8")
        monkeypatch.setenv("REDRIVE_ENCRYPTION_KEYS", KEY)
        ended = redrive("config", "-o", output)
        assert ended.code == 0
        for secret in ("canary-7", "canary-8", KEY):
            assert secret not in ended.out + ended.err
        assert "host/shop" in ended.out
        assert "***" in ended.out

    def test_a_steering_sign_in_the_name_of_a_file_is_written_out(
        self, redrive: Command, tmp_path: Path
    ) -> None:
        (tmp_path / "\x1b[31m.toml").write_text("worker_threads = 7\n")
        ended = redrive("config", "--config", "\x1b[31m.toml", "--changed", "-o", "plain")
        assert ended.out == "worker_threads\t7\tfile \\x1b[31m.toml\n"


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ["--set", "server_port=70000"],
                "--set server_port must be a whole number from 0 to 65,535, got 70000",
            ),
            (["--set", "port=7"], "there is no setting 'port'; did you mean server_port?"),
            (
                ["--set", "WORKER-THREADS=7"],
                "there is no setting 'worker-threads'; did you mean worker_threads?",
            ),
            (
                ["--config", "none.toml"],
                "cannot read the settings in none.toml: No such file or directory",
            ),
        ],
    )
    def test_in_one_line(self, redrive: Command, arguments: list[str], message: str) -> None:
        assert redrive("config", *arguments) == (2, "", f"Error: {message}\n")

    def test_in_the_environment(self, redrive: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("REDRIVE_DLQ_MAXSIZE", "canary-7")
        assert redrive("config") == (
            2,
            "",
            "Error: the environment sets REDRIVE_DLQ_MAXSIZE, which is not a setting; "
            "did you mean REDRIVE_DLQ_MAX_SIZE?\n",
        )

    def test_in_the_file(self, redrive: Command, tmp_path: Path) -> None:
        (tmp_path / "redrive.toml").write_text("dlq_interval_sec = 5\n")
        assert redrive("config", "--config", "redrive.toml") == (
            2,
            "",
            "Error: dlq_interval_sec in redrive.toml must be a number from 10 to 3,600, got 5\n",
        )

    def test_examples_in_a_message_are_not_taken_for_secrets(
        self, redrive: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("REDRIVE_DATABASE_URL", "canary-7@host")
        ended = redrive("config")
        assert ended.err.endswith(" or postgresql://user:password@host/database\n")

    @pytest.mark.parametrize("name", ["oidc_client_secret", "encryption_keys"])
    def test_a_secret_is_no_argument(self, redrive: Command, name: str) -> None:
        ended = redrive("config", "--set", f"{name}=canary-7")
        assert (ended.code, ended.out) == (2, "")
        assert f"{name} is a secret, and other users can see arguments" in ended.err
        assert "canary-7" not in ended.err

    def test_a_pair_without_a_value(self, redrive: Command) -> None:
        ended = redrive("config", "--set", "server_port")
        assert (ended.code, ended.out) == (2, "")
        assert "write it as NAME=VALUE, such as server_port=8080" in ended.err

    def test_a_debugger_sees_where(self, redrive: Command) -> None:
        ended = redrive("config", "--set", "port=7", "--debug")
        assert ended.code == 2
        assert "Traceback" in ended.err
        assert ended.err.endswith("Error: there is no setting 'port'; did you mean server_port?\n")


class TestTerminal:
    def test_has_a_table_by_default(self, tmp_path: Path) -> None:
        ended = talk(tmp_path, ["config", "--set", "server_port=9"], on_terminal=True)
        assert ended.code == 0
        assert "server_port              9\r\n" in ended.shown
        assert "\x1b[2m" in ended.shown

    def test_without_color_where_the_user_does_not_want_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        ended = talk(tmp_path, ["config"], on_terminal=True)
        assert ended.code == 0
        assert "\x1b" not in ended.shown


class TestProgram:
    def test_as_a_separate_program(self) -> None:
        command = [sys.executable, "-m", "redrive.cli", "config", "--set", "zzz=7"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("Error: there is no setting 'zzz'; ")

    def test_version_and_help(self, redrive: Command) -> None:
        assert redrive("--version") == (0, "redrive 0.1.0\n", "")
        ended = redrive("--help")
        assert ended.code == 0
        for noun in ("serve", "config", "key", "member", "org"):
            assert f"\n  {noun} " in ended.out
        assert max(map(len, ended.out.splitlines())) <= 80

    @pytest.mark.parametrize(
        "arguments", [["serv"], ["config", "more"], ["config", "--color"], ["config", "-o", "xml"]]
    )
    def test_unknown_names(self, redrive: Command, arguments: list[str]) -> None:
        ended = redrive(*arguments)
        assert (ended.code, ended.out) == (2, "")
        assert "Traceback" not in ended.err

    def test_a_closed_pipe_is_no_traceback(self) -> None:
        script = f"{sys.executable} -m redrive.cli config -o table | true"
        ended = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
        assert ended.stderr == ""
