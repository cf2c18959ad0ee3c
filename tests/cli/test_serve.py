"""`redrive serve`: serving an application, and errors about a wrong name."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import httpx2
import pytest
from tests.cli.conftest import Command

from redrive.app import Redrive
from redrive.cli.application import application, application_at
from redrive.cli.options import GlobalOptions
from redrive.cli.serve import LATE
from redrive.errors import RedriveError
from redrive.parts import parts_of

SHOP = """
from redrive import Redrive

app = Redrive("sqlite:///shop.db", log=False)
number = 7
"""


@pytest.fixture
def shop(redrive: Command, tmp_path: Path) -> Path:
    """A module in the working directory."""
    module = tmp_path / "shop_of_test.py"
    module.write_text(SHOP)
    return module


class TestTarget:
    def test_is_imported_from_the_working_directory(self, shop: Path) -> None:
        app = application_at("shop_of_test:app")
        assert type(app) is Redrive
        assert Path(sys.modules["shop_of_test"].__file__ or "") == shop

    def test_within_a_package(self, redrive: Command, tmp_path: Path) -> None:
        (tmp_path / "pack_of_test").mkdir()
        (tmp_path / "pack_of_test" / "work.py").write_text(SHOP)
        assert type(application_at("pack_of_test.work:app")) is Redrive

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            ("shop_of_test", "'shop_of_test' is not MODULE:ATTRIBUTE, such as shop.work:app"),
            ("shop_of_test:", "'shop_of_test:' is not MODULE:ATTRIBUTE, such as shop.work:app"),
            (":app", "':app' is not MODULE:ATTRIBUTE, such as shop.work:app"),
            ("shop/of/test.py:app", "'shop/of/test.py:app' is not MODULE:ATTRIBUTE, such as shop.work:app"),
            ("..shop:app", "'..shop:app' is not MODULE:ATTRIBUTE, such as shop.work:app"),
            (
                "shop_of_test:apps",
                "module 'shop_of_test' has no attribute 'apps'; did you mean shop_of_test:app?",
            ),
            (
                "shop_of_test:number",
                "shop_of_test:number is of type int, not Redrive; did you mean shop_of_test:app?",
            ),
            (
                "json:app",
                "module 'json' has no attribute 'app' and no application; create one, such as "
                "app = Redrive()",
            ),
        ],
    )
    def test_that_is_none(self, redrive: Command, shop: Path, target: str, message: str) -> None:
        assert redrive("serve", target) == (2, "", f"Error: {message}\n")

    @pytest.mark.parametrize(
        ("target", "missing"),
        [
            ("none_of_test:app", "none_of_test"),
            ("none_of_test.work:app", "none_of_test"),
            ("shop_of_test.work:app", "shop_of_test.work"),
        ],
    )
    def test_that_is_not_there(self, redrive: Command, shop: Path, target: str, missing: str) -> None:
        ended = redrive("serve", target)
        assert ended.code == 2
        assert ended.err.startswith(f"Error: no module {missing!r} in this directory")

    @pytest.mark.parametrize(
        ("source", "problem"),
        [
            ("import zzz_of_test", "it needs zzz_of_test, which is not installed"),
            ("def (", "SyntaxError: invalid syntax (shop_of_test.py, line 1)"),
            ("1 / 0", "ZeroDivisionError: division by zero"),
            ("raise SystemExit('not today')", "SystemExit: not today"),
            ("raise ValueError('two\\nlines, password=canary-7')", "ValueError: two lines, password="),
        ],
    )
    def test_that_cannot_be_imported(self, redrive: Command, shop: Path, source: str, problem: str) -> None:
        shop.write_text(source)
        ended = redrive("serve", "shop_of_test:app")
        assert ended.code == 1
        assert ended.err.startswith(f"Error: can't import module 'shop_of_test': {problem}")
        assert ended.err.count("\n") == 1
        assert "canary-7" not in ended.err

    def test_that_cannot_be_imported_in_full(self, redrive: Command, shop: Path) -> None:
        shop.write_text("\n\n1 / 0\n")
        ended = redrive("serve", "shop_of_test:app", "--debug")
        assert 'shop_of_test.py", line 3' in ended.err

    def test_interrupted(self, redrive: Command, shop: Path) -> None:
        shop.write_text("raise KeyboardInterrupt")
        ended = redrive("serve", "shop_of_test:app")
        assert ended.code == 130
        assert "Traceback" not in ended.err

    def test_something_unexpected(self, redrive: Command, shop: Path) -> None:
        odd = "class Odd(Redrive):\n    _parts = property(lambda self: 1 / 0)\n\napp = Odd.__new__(Odd)\n"
        shop.write_text(f"from redrive import Redrive\n\n{odd}")
        assert redrive("serve", "shop_of_test:app") == (
            1,
            "",
            "Error: unexpected error: ZeroDivisionError: division by zero\n"
            "Hint: run the command again with --debug for a traceback\n",
        )


def given(*, config: str | None = None, **arguments: object) -> GlobalOptions:
    given = GlobalOptions(config)
    for name, value in arguments.items():
        given.give(name, value, f"--{name}")
    return given


class TestSettings:
    def test_arguments_take_precedence_over_the_settings_of_the_application(
        self, shop: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("REDRIVE_SERVER_PORT", "7")
        monkeypatch.setenv("REDRIVE_SERVER_STREAMS", "8")
        settings = parts_of(application("shop_of_test:app", given(server_port="9"), LATE)).settings
        assert (settings.server_port, settings.server_streams) == (9, 8)
        assert settings.origins()["server_streams"] == "REDRIVE_SERVER_STREAMS"

    def test_settings_that_an_application_needs_when_created_come_too_late(self, shop: Path) -> None:
        shop.write_text("raise SystemExit('imported')")
        with pytest.raises(RedriveError, match=r"has no effect: shop_of_test:app.*REDRIVE_SCHEMA"):
            application("shop_of_test:app", given(schema="jobs"), LATE)

    def test_the_settings_file_is_that_of_the_application(
        self, shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "a.toml").write_text("worker_threads = 7\n")
        assert (
            parts_of(application("shop_of_test:app", given(config="a.toml"), LATE)).settings.worker_threads
            == 7
        )
        assert capsys.readouterr().err == ""

    def test_an_application_with_its_own_settings_gets_a_notice(
        self, shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "a.toml").write_text("worker_threads = 7\n")
        shop.write_text(
            "from redrive import *\napp = Redrive('sqlite://:memory:', settings=Settings(), log=False)"
        )
        assert (
            parts_of(application("shop_of_test:app", given(config="a.toml"), LATE)).settings.worker_threads
            == 32
        )
        assert "ignores part of --config" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--port", "many"], "--port must be a whole number from 0 to 65,535, got 'many'"),
            (["--host", ""], "--host must be 1 to 253 bytes of printable text, got ''"),
        ],
    )
    @pytest.mark.parametrize("target", [[], ["shop_of_test:app"]])
    def test_a_bad_one(
        self, redrive: Command, shop: Path, target: list[str], arguments: list[str], message: str
    ) -> None:
        assert redrive("serve", *target, *arguments) == (2, "", f"Error: {message}\n")

    def test_without_the_server(self, redrive: Command, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("redrive.server.serve", "redrive.server.connection"):  # modules that the command needs
            monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.setitem(sys.modules, "uvicorn", None)
        assert redrive("serve") == (
            1,
            "",
            "Error: the server needs uvicorn, which is not installed: pip install 'redrive[server]'\n",
        )


class TestServing:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_until_it_is_asked_to_stop(self, shop: Path, tmp_path: Path, number: int) -> None:
        command = [sys.executable, "-m", "redrive.cli", "serve", "shop_of_test:app", "--port", "0"]
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            try:
                address = _announced(process.stderr)
                assert httpx2.get(f"{address}/healthz").status_code == 200
                process.send_signal(number)
                assert process.wait(timeout=60) == 0
                assert "Traceback" not in process.stderr.read()
            finally:
                process.kill()

    def test_a_link_for_the_operator_is_in_no_log_when_people_can_sign_in(
        self, redrive: Command, tmp_path: Path
    ) -> None:
        """The first start prints it in any case, later ones only on a terminal."""
        assert _told(tmp_path).startswith("Sign in once with: https://redrive.example.com/app/sign-in#")
        assert redrive("key", "create", "ci", "--role", "viewer").code == 0
        told = _told(tmp_path)
        assert told.startswith("Sign in at https://redrive.example.com/app/sign-in (`redrive member link")
        assert "#" not in told
        master, slave = pty.openpty()
        try:
            shown = _told(tmp_path, (master, slave))
            assert shown.startswith("Sign in once with: https://redrive.example.com/app/sign-in#")
        finally:
            os.close(master)
            os.close(slave)


def _told(directory: Path, terminal: tuple[int, int] | None = None) -> str:
    """Return the instructions to sign in that a server prints on a terminal, or in its log."""
    address = ["--url", "https://redrive.example.com", "--port", "0"]
    command = [sys.executable, "-m", "redrive.cli", "serve", *address]
    master, stream = (None, subprocess.PIPE) if terminal is None else terminal
    with subprocess.Popen(command, cwd=directory, stderr=stream) as process:
        try:
            source = process.stderr if master is None else os.fdopen(os.dup(master), "rb")
            assert source is not None
            with source:
                lines = (line.decode().strip() for line in iter(source.readline, b""))
                return next(line for line in lines if line.startswith("Sign in"))
        finally:
            process.kill()


def _announced(lines: IO[str]) -> str:
    said = []
    for line in lines:
        said.append(line)
        if line.startswith("Redrive is at "):
            return line.removeprefix("Redrive is at ").strip()
    raise AssertionError("".join(said))
