"""Settings: limits, file and environment, aliases, and passwords that are never shown."""

from __future__ import annotations

import dataclasses
import math
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cases import loop_over

from redrive.engine.task import DEFAULT_TIMEOUT
from redrive.engine.worker_parts import WorkerOptions
from redrive.errors import InvalidValueError
from redrive.policy import STEP, Additive, BreakerPolicy, Exponential, Proportional
from redrive.settings import ALIASES, DEFAULT_TASK_TIMEOUT, SETTINGS, Argument, Setting, Settings
from redrive.settings.addresses import is_loopback
from redrive.settings.sources import is_foreign

DEFAULTS = {
    "database_url": "sqlite:///redrive.db",
    "schema": "redrive",
    "retry_max_attempts": None,
    "retry_base_delay_ms": None,
    "retry_jitter_max_ms": None,
    "retry_after_max_days": 7.0,
    "worker_lease_ttl_sec": 60.0,
    "gateway_timeout_ms": None,
    "worker_concurrency": 100,
    "worker_payload_bytes": 33_554_432,
    "worker_threads": 32,
    "worker_grace_sec": 30.0,
    "worker_poll_ms": 1000,
    "circuit_window": 20,
    "circuit_window_sec": 120.0,
    "circuit_minimum_calls": 5,
    "circuit_fail_threshold": 0.5,
    "circuit_cooldown_ms": 30_000,
    "retention_days": 30.0,
    "org_concurrency": None,
    "code_version": "",
    "dlq_enabled": True,
    "dlq_strategy": "automatic",
    "dlq_max_size": None,
    "dlq_redrive": "never",
    "dlq_default_policy": "exponential",
    "dlq_default_max_retries": 3,
    "dlq_processor_enabled": True,
    "dlq_interval_sec": 60.0,
    "dlq_archive_days": 7.0,
    "encryption_keys": None,
    "encryption_keys_file": None,
    "server_host": "127.0.0.1",
    "server_port": 8400,
    "server_url": None,
    "server_worker": False,
    "server_hosts": None,
    "server_body_bytes": 1_048_576,
    "server_page_size": 500,
    "server_span_days": 366,
    "server_key_rate": 100,
    "server_org_rate": 300,
    "server_statement_sec": 5.0,
    "server_streams": 100,
    "server_drain_sec": 20.0,
    "server_proxies": None,
    "server_forward_header": None,
    "oidc_issuer": None,
    "oidc_client_id": None,
    "oidc_client_secret": None,
    "oidc_client_secret_file": None,
    "oidc_scopes": "openid email profile",
    "oidc_name_claim": "email",
    "session_idle_hours": 12.0,
    "session_days": 7.0,
}

WHOLE: list[tuple[str, int, int]] = [
    ("retry_max_attempts", 1, 1000),
    ("retry_base_delay_ms", 0, 86_400_000),
    ("retry_jitter_max_ms", 0, 86_400_000),
    ("gateway_timeout_ms", 1, 86_400_000),
    ("worker_concurrency", 1, 10_000),
    ("worker_threads", 1, 1000),
    ("worker_poll_ms", 10, 60_000),
    ("circuit_window", 1, 10_000),
    ("circuit_minimum_calls", 1, 10_000),
    ("circuit_cooldown_ms", 0, 86_400_000),
    ("org_concurrency", 1, 1_000_000),
    ("dlq_max_size", 100, 100_000),
    ("dlq_default_max_retries", 0, 10),
    ("server_port", 0, 65_535),
    ("server_body_bytes", 1024, 67_108_864),
    ("server_page_size", 1, 500),
    ("server_span_days", 1, 3660),
    ("server_key_rate", 1, 100_000),
    ("server_org_rate", 1, 1_000_000),
    ("server_streams", 1, 10_000),
]
NUMBERS: list[tuple[str, float, float]] = [
    ("retry_after_max_days", 0.001, 365),
    ("worker_lease_ttl_sec", 3, 3600),
    ("worker_grace_sec", 0, 3600),
    ("retention_days", 0.01, 36_500),
    ("dlq_interval_sec", 10, 3600),
    ("dlq_archive_days", 0.01, 36_500),
    ("server_statement_sec", 0.1, 60),
    ("server_drain_sec", 0, 600),
    ("session_idle_hours", 0.05, 8760),
    ("session_days", 0.01, 365),
]
FLAGS = ["dlq_enabled", "dlq_processor_enabled", "server_worker"]
CHOICES = {
    "dlq_strategy": ("automatic", "selective", "manual", "disabled"),
    "dlq_redrive": ("by_category", "never", "linear", "exponential", "immediate"),
    "dlq_default_policy": ("never", "linear", "exponential", "immediate"),
}
WORDS = {
    "retry_max_attempts": "default",
    "retry_base_delay_ms": "default",
    "retry_jitter_max_ms": "default",
    "gateway_timeout_ms": "default",
    "circuit_window_sec": "none",
    "retention_days": "never",
    "org_concurrency": "unlimited",
    "dlq_max_size": "default",
    "dlq_archive_days": "never",
}
OTHER_WORDS = dict.fromkeys(
    [
        "encryption_keys",
        "encryption_keys_file",
        "server_url",
        "server_hosts",
        "server_proxies",
        "server_forward_header",
        "oidc_issuer",
        "oidc_client_id",
        "oidc_client_secret",
        "oidc_client_secret_file",
    ],
    "none",
)

P10 = """
    RETRY_MAX_ATTEMPTS RETRY_BASE_DELAY_MS RETRY_JITTER_MAX_MS WORKER_LEASE_TTL_SEC GATEWAY_TIMEOUT_MS
    WORKER_CONCURRENCY CIRCUIT_WINDOW CIRCUIT_FAIL_THRESHOLD CIRCUIT_COOLDOWN_MS DATABASE_URL
"""

BY_NAME = {setting.name: setting for setting in SETTINGS}


def variable_of(name: str) -> str:
    return f"REDRIVE_{name.upper()}"


def given(name: str, value: object) -> Any:
    """Return the value of a setting that was passed in code."""
    options: dict[str, Any] = {name: value}
    return getattr(Settings(**options), name)


def from_environment(name: str, text: str) -> Any:
    return getattr(Settings.load({variable_of(name): text}), name)


def toml(path: Path, text: str) -> Path:
    file = path / "redrive.toml"
    file.write_text(text, encoding="utf-8")
    return file


def from_file(path: Path, name: str, text: str) -> Any:
    return getattr(Settings.load({}, toml(path, f"{name} = {text}\n")), name)


class TestDefaults:
    def test_are_these(self) -> None:
        assert dataclasses.asdict(Settings()) == DEFAULTS
        assert dataclasses.asdict(Settings.load({})) == DEFAULTS

    def test_are_those_of_the_engine(self) -> None:
        options, settings = WorkerOptions(queues=("default",)), Settings()
        assert options.concurrency == settings.worker_concurrency
        assert options.lease_seconds == settings.worker_lease_ttl_sec
        assert options.poll_seconds * 1000 == settings.worker_poll_ms
        assert options.grace_seconds == settings.worker_grace_sec
        assert settings.retention_days is not None
        assert options.retention_seconds == settings.retention_days * 86_400.0
        assert DEFAULT_TASK_TIMEOUT == DEFAULT_TIMEOUT

    def test_the_environment_is_that_of_the_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("REDRIVE_WORKER_CONCURRENCY", "7")
        assert Settings.load().worker_concurrency == 7

    def test_settings_do_not_change(self) -> None:
        with pytest.raises(dataclasses.FrozenInstanceError):
            Settings().schema = "other"  # type: ignore[misc]

    def test_settings_can_be_compared_copied_and_sent(self) -> None:
        settings = Settings(worker_concurrency=7, retention_days=None)
        assert settings == Settings(worker_concurrency=7, retention_days=None)
        assert hash(settings) == hash(Settings(worker_concurrency=7, retention_days=None))
        assert pickle.loads(pickle.dumps(settings)) == settings
        assert dataclasses.replace(settings, worker_concurrency=8).worker_concurrency == 8

    def test_there_are_no_others(self) -> None:
        with pytest.raises(TypeError):
            Settings(concurrency=7)  # type: ignore[call-arg]


class TestBounds:
    @loop_over(("name", "low", "high"), WHOLE)
    def test_of_whole_numbers(self, tmp_path: Path, name: str, low: int, high: int) -> None:
        for inside in (low, low + 1, high - 1, high):
            assert given(name, inside) == inside
            assert from_environment(name, str(inside)) == inside
            assert from_file(tmp_path, name, str(inside)) == inside
        for outside in (low - 1, high + 1):
            allowed = f"must be a whole number from {low:,} to {high:,}.*, got {outside}$"
            with pytest.raises(InvalidValueError, match=f"^{name} {allowed}"):
                given(name, outside)
            with pytest.raises(InvalidValueError, match=f"^{variable_of(name)} {allowed}"):
                from_environment(name, str(outside))
            with pytest.raises(InvalidValueError, match=f"^{name} in .*redrive.toml {allowed}"):
                from_file(tmp_path, name, str(outside))

    @loop_over(("name", "low", "high"), NUMBERS)
    def test_of_numbers(self, tmp_path: Path, name: str, low: float, high: float) -> None:
        for inside in (low, math.nextafter(low, math.inf), math.nextafter(high, 0.0), high):
            for value in (
                given(name, inside),
                from_environment(name, repr(inside)),
                from_file(tmp_path, name, repr(inside)),
            ):
                assert value == inside
                assert type(value) is float
        for outside in (math.nextafter(low, -math.inf), math.nextafter(high, math.inf), low - 1, high + 1):
            with pytest.raises(InvalidValueError, match=f"from {low:,g} to {high:,g}"):
                given(name, outside)
            with pytest.raises(InvalidValueError, match=f"^{variable_of(name)} must be a number"):
                from_environment(name, repr(outside))
            with pytest.raises(InvalidValueError, match=f"^{name} in .*redrive.toml must be a number"):
                from_file(tmp_path, name, repr(float(outside)))

    @loop_over("name", [name for name, _, _ in WHOLE])
    @loop_over("value", ["5", 20.0, 20.5, True, math.nan, math.inf, b"20", [20], {}, object()])
    def test_values_that_are_not_whole_numbers(self, name: str, value: object) -> None:
        with pytest.raises(InvalidValueError, match=f"^{name} must be a whole number from"):
            given(name, value)

    @loop_over("name", [name for name, _, _ in NUMBERS])
    @loop_over("value", ["5", True, math.nan, math.inf, -math.inf, b"5", [5], 5 + 0j, object()])
    def test_values_that_are_not_numbers(self, name: str, value: object) -> None:
        with pytest.raises(InvalidValueError, match=f"^{name} must be a number from"):
            given(name, value)

    @loop_over("name", [name for name, _, _ in WHOLE])
    @loop_over("text", ["many", "20.5", "2e1", "20 s", "0x14", "nan", "inf", "true", "1,0", "--5"])
    def test_variables_that_are_no_whole_number(self, name: str, text: str) -> None:
        with pytest.raises(InvalidValueError, match=f"^{variable_of(name)} must be a whole number from"):
            from_environment(name, text)

    @loop_over("name", [name for name, _, _ in NUMBERS])
    @loop_over("text", ["many", "20 s", "0x14", "nan", "inf", "-inf", "true", "1,5", "1.5.2"])
    def test_variables_that_are_no_number(self, name: str, text: str) -> None:
        with pytest.raises(InvalidValueError, match=f"^{variable_of(name)} must be a number from"):
            from_environment(name, text)

    @loop_over("name", [name for name, _, _ in [*WHOLE, *NUMBERS]])
    @loop_over("text", ['"20"', "true", "[20]", "{ a = 20 }", "2020-01-01", "nan", "inf"])
    def test_values_in_a_file_that_are_no_number(self, tmp_path: Path, name: str, text: str) -> None:
        with pytest.raises(InvalidValueError, match=f"^{name} in .*redrive.toml must be a"):
            from_file(tmp_path, name, text)

    @loop_over("name", [name for name, *_ in [*WHOLE, *NUMBERS] if name not in WORDS])
    def test_none_where_there_is_no_without(self, name: str) -> None:
        with pytest.raises(InvalidValueError, match=f"^{name} must be"):
            given(name, None)

    def test_a_very_long_number(self) -> None:
        with pytest.raises(InvalidValueError) as caught:
            from_environment("worker_concurrency", "9" * 100_000)
        assert len(str(caught.value)) < 300

    def test_a_very_long_text_is_cut(self) -> None:
        with pytest.raises(InvalidValueError) as caught:
            from_environment("worker_concurrency", "many" * 100_000)
        assert len(str(caught.value)) < 300

    @loop_over("text", [" 20 ", "\t20\n", "+20", "020", "2_0"])
    def test_whole_numbers_may_be_written_in_some_ways(self, text: str) -> None:
        assert from_environment("worker_concurrency", text) == 20

    @loop_over("text", ["20", "20.0", "2e1", " 20 "])
    def test_numbers_may_be_written_in_some_ways(self, text: str) -> None:
        assert from_environment("worker_grace_sec", text) == 20.0

    def test_the_error_is_a_value_error(self) -> None:
        with pytest.raises(ValueError):
            Settings(worker_threads=0)


class TestWithout:
    @loop_over(("name", "word"), WORDS.items())
    def test_the_word_means_none(self, tmp_path: Path, name: str, word: str) -> None:
        for spelled in (word, word.upper(), word.title()):
            assert given(name, spelled) is None
            assert from_environment(name, f" {spelled} ") is None
            assert from_file(tmp_path, name, f'"{spelled}"') is None
        assert given(name, None) is None

    @loop_over(("name", "word"), WORDS.items())
    def test_the_message_names_it(self, name: str, word: str) -> None:
        with pytest.raises(InvalidValueError, match=f", or \"{word}\", got 'sometimes'$"):
            from_environment(name, "sometimes")

    def test_the_environment_can_unset_a_value_of_the_file(self, tmp_path: Path) -> None:
        file = toml(tmp_path, "org_concurrency = 5\n")
        assert Settings.load({"REDRIVE_ORG_CONCURRENCY": "unlimited"}, file).org_concurrency is None


class TestShare:
    @loop_over(
        ("text", "share"),
        [
            ("0.001", 0.001),
            ("0.5", 0.5),
            ("1", 1.0),
            ("1.0", 1.0),
            ("1.5", 0.015),
            ("2", 0.02),
            ("50", 0.5),
            ("99.9", 0.999),
            ("100", 1.0),
            ("0.1%", 0.001),
            ("1%", 0.01),
            ("50%", 0.5),
            ("50 %", 0.5),
            ("100%", 1.0),
        ],
    )
    def test_as_text(self, text: str, share: float) -> None:
        assert from_environment("circuit_fail_threshold", text) == pytest.approx(share, rel=1e-12)

    @loop_over(("value", "share"), [(1, 1.0), (50, 0.5), (0.25, 0.25), ("25%", 0.25), (100, 1.0)])
    def test_in_code_and_in_a_file(self, tmp_path: Path, value: object, share: float) -> None:
        assert given("circuit_fail_threshold", value) == share
        text = f'"{value}"' if isinstance(value, str) else repr(value)
        assert from_file(tmp_path, "circuit_fail_threshold", text) == share

    @loop_over(
        "text",
        [
            "0",
            "0.0009",
            "-0.5",
            "-50",
            "100.1",
            "101",
            "0%",
            "0.09%",
            "100.1%",
            "-1%",
            "%",
            "half",
            "nan",
            "nan%",
            "inf",
            "inf%",
            "50%%",
            "1e400%",
        ],
    )
    def test_rejected_values(self, text: str) -> None:
        with pytest.raises(InvalidValueError) as caught:
            from_environment("circuit_fail_threshold", text)
        assert str(caught.value).startswith(
            "REDRIVE_CIRCUIT_FAIL_THRESHOLD must be a share from 0.001 to 1, "
            "or a percentage from 0.1% to 100% (50% or 50), got "
        )

    @loop_over("value", [True, None, "0.5", [0.5], math.nan])
    def test_values_rejected_in_code(self, value: object) -> None:
        with pytest.raises(InvalidValueError, match=r"^circuit_fail_threshold must be"):
            given("circuit_fail_threshold", value)


class TestFlag:
    """M9."""

    @loop_over("name", FLAGS)
    @loop_over(
        ("text", "value"),
        [
            ("true", True),
            ("True", True),
            ("yes", True),
            ("ON", True),
            ("1", True),
            ("false", False),
            ("no", False),
            ("off", False),
            (" 0 ", False),
        ],
    )
    def test_as_text(self, name: str, text: str, value: bool) -> None:
        assert from_environment(name, text) is value

    @pytest.mark.parametrize("name", FLAGS)
    def test_in_code_and_in_a_file(self, tmp_path: Path, name: str) -> None:
        assert [given(name, each) for each in (True, False)] == [True, False]
        assert [from_file(tmp_path, name, each) for each in ("true", "false")] == [True, False]

    @loop_over("name", FLAGS)
    @loop_over("text", ["maybe", "2", "-1", "nan", "truee"])
    def test_rejected_values(self, name: str, text: str) -> None:
        with pytest.raises(InvalidValueError, match=f"^{variable_of(name)} must be true or false, got "):
            from_environment(name, text)

    @loop_over("name", FLAGS)
    @loop_over("value", [None, 2, [True], "", object()])
    def test_values_rejected_in_code(self, name: str, value: object) -> None:
        with pytest.raises(InvalidValueError, match=f"^{name} must be true or false, got "):
            given(name, value)


class TestChoice:
    @pytest.mark.parametrize(("name", "words"), CHOICES.items())
    def test_each_word(self, tmp_path: Path, name: str, words: tuple[str, ...]) -> None:
        for word in words:
            assert given(name, word) == word
            assert from_environment(name, f" {word.upper()} ") == word
            assert from_file(tmp_path, name, f'"{word}"') == word

    @loop_over(("name", "words"), CHOICES.items())
    @loop_over("text", ["sometimes", "5", "true"])
    def test_the_message_names_the_words(self, name: str, words: tuple[str, ...], text: str) -> None:
        with pytest.raises(InvalidValueError, match=f"{name.upper()} must be one of {', '.join(words)}, got"):
            from_environment(name, text)

    @loop_over("name", CHOICES)
    @loop_over("value", [None, True, 5, ["never"], ""])
    def test_values_that_are_not_words(self, name: str, value: object) -> None:
        with pytest.raises(InvalidValueError, match=f"^{name} must be one of "):
            given(name, value)


class TestText:
    @loop_over("value", ["a", "x" * 63, "my schema", "123", "ä" * 31])
    def test_schema(self, value: str) -> None:
        assert given("schema", value) == value
        assert from_environment("schema", value) == value

    @loop_over("value", ["", "x" * 64, "ä" * 32, "a\0b", "a\nb", "\ud800", 5, None, b"redrive"])
    def test_no_schema(self, value: object) -> None:
        with pytest.raises(InvalidValueError, match=r"^schema must be 1 to 63 bytes of printable text, got "):
            given("schema", value)

    @loop_over("value", ["", "2024", "1.2.3+abc", "x" * 200])
    def test_code_version(self, value: str) -> None:
        assert given("code_version", value) == value
        assert from_environment("code_version", value) == value

    @loop_over("value", ["x" * 201, "a\0b", 2024, None])
    def test_no_code_version(self, value: object) -> None:
        with pytest.raises(InvalidValueError, match=r"^code_version must be 0 to 200 bytes"):
            given("code_version", value)


ADDRESSES = [
    "sqlite:///work.db",
    "sqlite:////var/lib/work.db",
    "sqlite://:memory:",
    "postgresql://app@host:5432/shop",
    "postgres://app:secret-7@[::1]/shop?sslmode=require",
]


class TestAddress:
    @loop_over("address", ADDRESSES)
    def test_is_taken_as_it_is(self, tmp_path: Path, address: str) -> None:
        assert given("database_url", address) == address
        assert from_environment("database_url", address) == address
        assert from_file(tmp_path, "database_url", f'"{address}"') == address

    @loop_over(
        "value",
        [
            "app:secret-7@host/shop",
            "host=db password=secret-7",
            "://app:secret-7@host",
            "postgresql://",
            "postgresql://app:secret-7@host/\nshop",
            ["postgresql://app:secret-7@host"],
            {"url": "secret-7"},
            "",
            None,
        ],
    )
    def test_a_bad_one_is_refused_and_never_shown(self, value: object) -> None:
        with pytest.raises(InvalidValueError) as caught:
            given("database_url", value)
        assert str(caught.value) == (
            "database_url must be an address such as sqlite:///work.db or postgresql://user:password@host/database"
        )
        assert caught.value.__cause__ is None

    def test_nor_from_the_environment_or_a_file(self, tmp_path: Path) -> None:
        for variable in ("REDRIVE_DATABASE_URL", "DATABASE_URL"):
            with pytest.raises(InvalidValueError, match=f"^{variable} must be an address") as caught:
                Settings.load({variable: "app:secret-7@host"})
            assert "secret-7" not in str(caught.value)
        with pytest.raises(InvalidValueError, match=r"^database_url in .* must be an address") as caught:
            from_file(tmp_path, "database_url", '["secret-7"]')
        assert "secret-7" not in str(caught.value)

    def test_one_in_the_wrong_place_shows_no_password(self) -> None:
        with pytest.raises(InvalidValueError) as caught:
            from_environment("worker_concurrency", "postgresql://app:secret-7@host/shop")
        assert "secret-7" not in str(caught.value)


URLS = {
    "https://redrive.example.com": "https://redrive.example.com",
    "https://Redrive.Example.com/": "https://redrive.example.com",
    "https://redrive.example.com:443": "https://redrive.example.com",
    "https://redrive.example.com:8443/": "https://redrive.example.com:8443",
    "https://10.0.0.7": "https://10.0.0.7",
    "https://[2001:DB8::1]:8443": "https://[2001:db8::1]:8443",
    "http://localhost:8400": "http://localhost:8400",
    "http://127.0.0.1:80": "http://127.0.0.1",
    "http://[::1]:8400": "http://[::1]:8400",
}
NO_URLS = [
    "http://redrive.example.com",
    "http://127.0.0.1.example.com",
    "http://localhost.example.com",
    "https://",
    "https://:8400",
    "https://redrive.example.com:0",
    "https://redrive.example.com:65536",
    "https://redrive.example.com:http",
    "https://redrive.example.com?secret-7",
    "https://redrive.example.com#secret-7",
    "https://ana:secret-7@redrive.example.com",
    "https://@redrive.example.com",
    "https://redrive.example.com\\@evil.example",
    "https://redrive example.com",
    "https://rédrive.example.com",
    "https://[::1",
    "https://-redrive.example.com",
    "ftp://localhost",
    "javascript://localhost",
    "redrive.example.com",
    "https://redrive.example.com\n",
    "",
    7,
    ["https://redrive.example.com"],
]


class TestUrl:
    @loop_over(("text", "origin"), URLS.items())
    def test_of_the_server_is_an_origin_as_browsers_send_it(self, text: str, origin: str) -> None:
        assert given("server_url", text) == origin
        assert from_environment("server_url", text) == origin

    @loop_over("value", [*NO_URLS, "https://redrive.example.com/app"])
    def test_values_that_are_rejected_and_not_shown(self, value: object) -> None:
        with pytest.raises(InvalidValueError) as caught:
            given("server_url", value)
        assert str(caught.value) == (
            "server_url must be an https address such as https://redrive.example.com, without a path "
            '(http on this machine only), or "none"'
        )

    @pytest.mark.parametrize(
        "issuer", ["https://login.example.com/realms/Shop/", "http://localhost:5556/dex"]
    )
    def test_of_an_issuer_is_taken_as_it_is(self, issuer: str) -> None:
        assert Settings(oidc_issuer=issuer, oidc_client_id="redrive").oidc_issuer == issuer

    @loop_over("value", NO_URLS)
    def test_no_issuer(self, value: object) -> None:
        with pytest.raises(InvalidValueError, match=r"^oidc_issuer must be an https address"):
            Settings(oidc_issuer=value, oidc_client_id="redrive")  # type: ignore[arg-type]

    @loop_over(
        ("host", "loopback"),
        [
            ("localhost", True),
            ("LOCALHOST.", True),
            ("shop.localhost", True),
            ("127.0.0.1", True),
            ("127.9.9.9", True),
            ("::1", True),
            ("[::1]", True),
            ("::ffff:127.0.0.1", True),
            ("0.0.0.0", False),
            ("::", False),
            ("10.0.0.1", False),
            ("::ffff:10.0.0.1", False),
            ("127.0.0.1.example.com", False),
            ("localhost.example.com", False),
            ("notlocalhost", False),
            ("", False),
        ],
    )
    def test_what_only_this_machine_reaches(self, host: str, loopback: bool) -> None:
        assert is_loopback(host) is loopback


class TestLists:
    @loop_over(
        ("name", "text", "value"),
        [
            ("server_hosts", "Redrive.example.com", ("redrive.example.com",)),
            ("server_hosts", "a.example, b.example,a.example", ("a.example", "b.example")),
            ("server_hosts", "10.0.0.7,::1", ("10.0.0.7", "::1")),
            ("server_proxies", "10.0.0.7", ("10.0.0.7",)),
            ("server_proxies", "10.0.0.0/8 , fd00::/8", ("10.0.0.0/8", "fd00::/8")),
            ("server_proxies", "10.0.0.7/32,10.0.0.7", ("10.0.0.7",)),
        ],
    )
    def test_with_commas_or_as_a_list(
        self, tmp_path: Path, name: str, text: str, value: tuple[str, ...]
    ) -> None:
        assert from_environment(name, text) == value
        assert given(name, text.split(",")) == value
        assert from_file(tmp_path, name, f'"{text}"') == value
        assert from_file(tmp_path, name, repr(text.split(","))) == value
        assert from_environment(name, "none") is None

    @loop_over(
        ("name", "value"),
        [
            ("server_hosts", "a.example:80"),
            ("server_hosts", "*.example"),
            ("server_hosts", "https://a.example"),
            ("server_hosts", "a..example"),
            ("server_hosts", "a" * 254),
            ("server_hosts", "a b"),
            ("server_hosts", "fe80::1%eth0"),
            ("server_hosts", "a.example,"),
            ("server_hosts", []),
            ("server_hosts", [7]),
            ("server_hosts", 7),
            ("server_proxies", "10.0.0.1/8"),
            ("server_proxies", "0.0.0.0/0"),
            ("server_proxies", "::/0"),
            ("server_proxies", "10.0.0.0/33"),
            ("server_proxies", "proxy.example"),
            ("server_proxies", "10.0.0.7,"),
            ("server_proxies", [167772161]),
            ("server_proxies", 167772161),
        ],
    )
    def test_rejected_values(self, name: str, value: object) -> None:
        with pytest.raises(InvalidValueError, match=rf"^{name} must be .*, separated by commas, or \"none\""):
            given(name, value)


class TestSignIn:
    """Settings that make no sense without each other."""

    def test_a_header_is_believed_from_proxies_only(self) -> None:
        with pytest.raises(
            InvalidValueError, match=r"^server_forward_header is trusted only from server_proxies"
        ):
            Settings(server_forward_header="X-Forwarded-User")
        settings = Settings(server_forward_header="X-Forwarded-User", server_proxies=("10.0.0.7",))
        assert settings.server_forward_header == "X-Forwarded-User"

    @loop_over("value", ["X User", "X_User", "X-User:", "", "x" * 101, "7", "X-Üser", 7])
    def test_no_header(self, value: Any) -> None:
        with pytest.raises(InvalidValueError, match=r"^server_forward_header must be the name of a header"):
            Settings(server_forward_header=value, server_proxies=("10.0.0.7",))

    @pytest.mark.parametrize(
        "half", [{"oidc_issuer": "https://login.example.com"}, {"oidc_client_id": "redrive"}]
    )
    def test_an_issuer_and_a_client_need_each_other(self, half: dict[str, Any]) -> None:
        with pytest.raises(InvalidValueError, match=r"^oidc_issuer and oidc_client_id need each other"):
            Settings(**half)

    @pytest.mark.parametrize(
        ("text", "scopes"), [("openid", "openid"), ("  groups   openid groups ", "groups openid")]
    )
    def test_scopes(self, text: str, scopes: str) -> None:
        assert given("oidc_scopes", text) == scopes

    @loop_over("value", ["email", "", "openid,email", None, ["openid"]])
    def test_no_scopes(self, value: object) -> None:
        with pytest.raises(InvalidValueError, match=r"^oidc_scopes must be scopes .*including openid"):
            given("oidc_scopes", value)

    def test_the_secret_is_read_from_the_setting_or_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "secret"
        file.write_text("secret-8\n")
        assert Settings().read_oidc_client_secret() is None
        assert Settings(oidc_client_secret="secret-7").read_oidc_client_secret() == "secret-7"
        assert Settings(oidc_client_secret_file=str(file)).read_oidc_client_secret() == "secret-8"
        with pytest.raises(InvalidValueError, match="not both"):
            Settings(oidc_client_secret="7", oidc_client_secret_file=str(file)).read_oidc_client_secret()

    def test_a_file_without_a_secret(self, tmp_path: Path) -> None:
        file = tmp_path / "secret"
        with pytest.raises(InvalidValueError, match=r"^cannot read the secret in .*secret: No such file"):
            Settings(oidc_client_secret_file=str(file)).read_oidc_client_secret()
        file.write_text("\n")
        with pytest.raises(InvalidValueError, match=r"^the content of .*secret must be 1 to 4096 bytes"):
            Settings(oidc_client_secret_file=str(file)).read_oidc_client_secret()
        file.write_text("secret-7\x00")
        with pytest.raises(InvalidValueError, match=r"^the content of .*secret must be") as caught:
            Settings(oidc_client_secret_file=str(file)).read_oidc_client_secret()
        assert "secret-7" not in str(caught.value)

    def test_the_secret_is_never_shown(self) -> None:
        settings = Settings(oidc_client_secret="secret-7")
        assert "secret-7" not in repr(settings)
        assert "oidc_client_secret=***" in repr(settings)
        setting = BY_NAME["oidc_client_secret"]
        assert (setting.mask("secret-7"), setting.spell("secret-7")) == ("***", "***")
        with pytest.raises(InvalidValueError) as caught:
            given("oidc_client_secret", "secret-7\n")
        assert "secret-7" not in str(caught.value)


class TestOrigins:
    """Every value has a known source: defaults < file < environment < arguments (P10)."""

    def test_of_each_layer(self, tmp_path: Path) -> None:
        file = toml(tmp_path, "worker_threads = 7\nworker_concurrency = 7\nserver_port = 7\nschema = 'a'\n")
        environment = {"WORKER_CONCURRENCY": "8", "REDRIVE_SERVER_PORT": "8", "REDRIVE_SCHEMA": "b"}
        arguments = {"server_port": Argument("9", "--port"), "schema": "c"}
        settings = Settings.load(environment, file, arguments)
        assert (settings.worker_threads, settings.worker_concurrency) == (7, 8)
        assert (settings.server_port, settings.schema) == (9, "c")
        origins = settings.origins()
        assert list(origins) == list(DEFAULTS)
        changed = {name: origin for name, origin in origins.items() if origin != "default"}
        assert changed == {
            "worker_threads": f"file {file}",
            "worker_concurrency": "WORKER_CONCURRENCY (alias)",
            "server_port": "argument --port",
            "schema": "argument schema",
        }

    def test_of_a_default_that_was_given(self) -> None:
        assert Settings.load({"REDRIVE_SCHEMA": "redrive"}).origins()["schema"] == "REDRIVE_SCHEMA"

    def test_of_what_code_says(self) -> None:
        settings = Settings(schema="jobs")
        assert settings.origins()["schema"] == "code"
        assert settings.origins()["server_port"] == "default"
        assert dataclasses.replace(Settings.load({"REDRIVE_SCHEMA": "a"}), schema="b").origins() == {
            **dict.fromkeys(DEFAULTS, "default"),
            "schema": "code",
        }

    def test_arguments_win_over_settings_that_exist(self) -> None:
        before = Settings.load({"REDRIVE_SCHEMA": "jobs"})
        settings = before.override({"server_port": Argument("9", "--port")})
        assert (settings.schema, settings.server_port, before.server_port) == ("jobs", 9, 8400)
        assert settings.origins()["schema"] == "REDRIVE_SCHEMA"
        assert settings.origins()["server_port"] == "argument --port"

    def test_origins_do_not_count_when_settings_are_compared_or_sent(self) -> None:
        loaded = Settings.load({"REDRIVE_SCHEMA": "jobs"})
        assert loaded == Settings(schema="jobs")
        assert hash(loaded) == hash(Settings(schema="jobs"))
        assert pickle.loads(pickle.dumps(loaded)).origins()["schema"] == "code"


class TestArguments:
    @pytest.mark.parametrize(("value", "port"), [("9", 9), (" 9 ", 9), (9, 9)])
    def test_are_read_as_in_the_environment(self, value: object, port: int) -> None:
        assert Settings.load({}, arguments={"server_port": value}).server_port == port

    def test_can_unset_a_value_of_the_environment(self) -> None:
        environment = {"REDRIVE_DLQ_MAX_SIZE": "500"}
        assert Settings.load(environment, arguments={"dlq_max_size": "default"}).dlq_max_size is None

    def test_the_message_names_the_option_and_the_bounds(self) -> None:
        with pytest.raises(InvalidValueError) as caught:
            Settings.load({}, arguments={"server_port": Argument("many", "--port")})
        assert str(caught.value) == "--port must be a whole number from 0 to 65,535, got 'many'"

    def test_an_unknown_one(self) -> None:
        with pytest.raises(
            InvalidValueError, match=r"^there is no setting 'port'; did you mean server_port\?$"
        ):
            Settings.load({}, arguments={"port": "9"})

    def test_a_bad_value_is_refused_also_where_they_win(self) -> None:
        with pytest.raises(InvalidValueError, match=r"^REDRIVE_SERVER_PORT must be"):
            Settings.load({"REDRIVE_SERVER_PORT": "many"}, arguments={"server_port": "9"})


class TestSpelled:
    @loop_over(
        ("name", "value", "spelled", "masked"),
        [
            ("server_port", 9, "9", 9),
            ("worker_grace_sec", 2.5, "2.5", 2.5),
            ("worker_grace_sec", 30.0, "30", 30.0),
            ("server_worker", True, "true", True),
            ("dlq_max_size", None, "default", None),
            ("server_hosts", ("a.example", "b.example"), "a.example, b.example", ["a.example", "b.example"]),
            ("oidc_client_secret", None, "none", None),
            ("encryption_keys", ("secret-7",), "***", "***"),
            ("schema", "jobs", "jobs", "jobs"),
            ("database_url", "sqlite:///work.db", "sqlite:///work.db", "sqlite:///work.db"),
        ],
    )
    def test_for_people_and_as_json(self, name: str, value: object, spelled: str, masked: object) -> None:
        assert BY_NAME[name].spell(value) == spelled
        assert BY_NAME[name].mask(value) == masked

    def test_a_password_is_hidden(self) -> None:
        setting, address = BY_NAME["database_url"], "postgresql://app:secret-7@host/shop"
        assert "secret-7" not in setting.spell(address) + setting.mask(address)
        assert setting.spell(address).endswith("@host/shop")

    @loop_over("setting", SETTINGS)
    def test_a_written_value_is_read_back(self, setting: Setting) -> None:
        text = setting.spell(setting.default)
        assert setting.convert(setting.parse(text), setting.name) == setting.default


class TestRepr:
    @loop_over(
        "address",
        [
            "postgresql://app:{}@host/shop",
            "postgresql://app:{}@host:5432/shop?sslmode=require",
            "postgresql://app:{}@one:1,two:2/shop",
            "postgresql://:{}@host/shop",
            "postgresql://me@corp:{}@host/shop",
            "postgresql://app:{}@[::1]:5432/shop",
        ],
    )
    @loop_over(
        "password",
        [
            "secret-7",
            "p@ss-7",
            "se/cret7",
            "se:cret7",
            "se#cr?et7",
            "se cret7",
            "'se\"cret7",
            "@/secret7",
            "<b7>",
            "s%40cret7",
            "ключ7",
            "postgres-7",
            "a,b;c7",
            "]se[cret7",
        ],
    )
    def test_hides_any_password(self, address: str, password: str) -> None:
        settings = Settings(database_url=address.format(password))
        for text in (repr(settings), str(settings), f"{settings}", f"{[settings]}"):
            assert password not in text
            assert "shop" in text

    @pytest.mark.parametrize("name", ["password", "sslpassword"])
    def test_hides_one_that_is_a_parameter(self, name: str) -> None:
        settings = Settings(database_url=f"postgresql://host/shop?{name}=secret-7&sslmode=require")
        assert "secret-7" not in repr(settings)
        assert "sslmode=require" in repr(settings)

    @pytest.mark.parametrize("address", ["sqlite:///work.db", "postgresql://app@host:5432/shop"])
    def test_shows_an_address_without_one(self, address: str) -> None:
        assert f"database_url={address!r}" in repr(Settings(database_url=address))

    def test_shows_all_the_others(self) -> None:
        shown = repr(Settings())
        assert shown.startswith("Settings(database_url='sqlite:///redrive.db', schema='redrive', ")
        for name, value in DEFAULTS.items():
            assert f"{name}={value!r}" in shown


class TestEnvironment:
    def test_all_at_once(self) -> None:
        settings = Settings.load(
            {
                "REDRIVE_DATABASE_URL": "postgresql://app@host/shop",
                "REDRIVE_SCHEMA": "jobs",
                "REDRIVE_RETRY_MAX_ATTEMPTS": "7",
                "REDRIVE_RETRY_BASE_DELAY_MS": "100",
                "REDRIVE_RETRY_JITTER_MAX_MS": "50",
                "REDRIVE_WORKER_LEASE_TTL_SEC": "30",
                "REDRIVE_GATEWAY_TIMEOUT_MS": "15000",
                "REDRIVE_WORKER_CONCURRENCY": "8",
                "REDRIVE_WORKER_THREADS": "4",
                "REDRIVE_WORKER_GRACE_SEC": "5",
                "REDRIVE_WORKER_POLL_MS": "200",
                "REDRIVE_CIRCUIT_WINDOW": "10",
                "REDRIVE_CIRCUIT_FAIL_THRESHOLD": "25%",
                "REDRIVE_CIRCUIT_COOLDOWN_MS": "1000",
                "REDRIVE_RETENTION_DAYS": "never",
                "REDRIVE_ORG_CONCURRENCY": "3",
                "REDRIVE_CODE_VERSION": "1.2.3",
            }
        )
        assert settings == Settings(
            database_url="postgresql://app@host/shop",
            schema="jobs",
            retry_max_attempts=7,
            retry_base_delay_ms=100,
            retry_jitter_max_ms=50,
            worker_lease_ttl_sec=30.0,
            gateway_timeout_ms=15_000,
            worker_concurrency=8,
            worker_threads=4,
            worker_grace_sec=5.0,
            worker_poll_ms=200,
            circuit_window=10,
            circuit_fail_threshold=0.25,
            circuit_cooldown_ms=1000,
            retention_days=None,
            org_concurrency=3,
            code_version="1.2.3",
        )

    def test_p10_the_aliases_are_these(self) -> None:
        assert frozenset(P10.split()) == ALIASES
        assert {setting.alias for setting in SETTINGS} - {None} == ALIASES

    @loop_over("alias", P10.split())
    def test_p10_each_alias_is_read(self, alias: str) -> None:
        text = "sqlite:///other.db" if alias == "DATABASE_URL" else "17"
        changed = Settings.load({alias: text})
        assert changed == Settings.load({f"REDRIVE_{alias}": text})
        assert changed != Settings()

    @loop_over(
        ("other", "name", "value"),
        [
            ("dlq_default_retry_policy", "dlq_default_policy", "linear"),
            ("dlq_retry_processor_enabled", "dlq_processor_enabled", "false"),
            ("dlq_retry_interval_seconds", "dlq_interval_sec", "90"),
        ],
    )
    def test_14_m9_other_names_of_settings(self, tmp_path: Path, other: str, name: str, value: str) -> None:
        expected = Settings.load({f"REDRIVE_{name.upper()}": value})
        assert expected != Settings()
        assert Settings.load({f"REDRIVE_{other.upper()}": value}) == expected
        assert Settings.load({}, arguments={other: value}) == expected
        file = tmp_path / "redrive.toml"
        file.write_text(f"{other} = {value if value != 'linear' else repr(value)}")
        assert Settings.load({}, file) == expected
        clash = {f"REDRIVE_{other.upper()}": value, f"REDRIVE_{name.upper()}": value}
        with pytest.raises(InvalidValueError, match="are two spellings of"):
            Settings.load(clash)

    def test_the_prefixed_one_wins(self) -> None:
        environment = {"WORKER_CONCURRENCY": "5", "REDRIVE_WORKER_CONCURRENCY": "6"}
        assert Settings.load(environment).worker_concurrency == 6

    def test_an_alias_that_does_not_count_is_not_read(self) -> None:
        environment = {"WORKER_CONCURRENCY": "many", "REDRIVE_WORKER_CONCURRENCY": "6"}
        assert Settings.load(environment).worker_concurrency == 6

    @pytest.mark.parametrize("empty", ["", " ", "\t\n"])
    def test_an_empty_one_counts_as_none(self, empty: str) -> None:
        assert Settings.load({setting.environment: empty for setting in SETTINGS}) == Settings()
        environment = {"WORKER_CONCURRENCY": "5", "REDRIVE_WORKER_CONCURRENCY": empty}
        assert Settings.load(environment).worker_concurrency == 5

    def test_the_message_names_the_variable_that_was_read(self) -> None:
        with pytest.raises(InvalidValueError) as caught:
            Settings.load({"WORKER_CONCURRENCY": "many"})
        assert str(caught.value) == "WORKER_CONCURRENCY must be a whole number from 1 to 10,000, got 'many'"

    @loop_over("variable", ["SCHEMA", "CODE_VERSION", "WORKER_THREADS", "RETENTION_DAYS"])
    def test_an_ambiguous_variable_needs_the_prefix(self, variable: str) -> None:
        assert Settings.load({variable: "17"}) == Settings()

    @loop_over(
        ("variable", "suggestion"),
        [
            ("REDRIVE_DLQ_MAXSIZE", "did you mean REDRIVE_DLQ_MAX_SIZE?"),
            ("REDRIVE_PORT", "did you mean REDRIVE_SERVER_PORT?"),
            ("REDRIVE_worker_threads", "did you mean REDRIVE_WORKER_THREADS?"),
            ("REDRIVE_ZZZ", "remove it, then run `redrive config` to list all settings"),
        ],
    )
    def test_an_unknown_one_with_the_prefix(self, variable: str, suggestion: str) -> None:
        with pytest.raises(InvalidValueError) as caught:
            Settings.load({variable: "secret-7"})
        expected = f"the environment sets {variable}, which is not a setting; {suggestion}"
        assert str(caught.value) == expected

    @pytest.mark.parametrize("empty", ["", "  "])
    def test_an_unknown_one_that_is_empty_counts_as_none(self, empty: str) -> None:
        assert Settings.load({"REDRIVE_ZZZ": empty}) == Settings()

    @loop_over(
        "variable",
        ["redrive_schema", "XREDRIVE_PORT", "REDRIVE_TEST_EXPLORE", "REDRIVE_WITHOUT_GUARD", "REDRIVE"],
    )
    def test_unrelated_variables(self, variable: str) -> None:
        assert Settings.load({variable: "17"}) == Settings()

    @pytest.mark.parametrize("service", ["REDRIVE", "REDRIVE_SERVER", "REDRIVE_WORKER_EU"])
    def test_what_kubernetes_makes_of_a_service(self, service: str) -> None:
        made = {
            f"{service}_SERVICE_HOST": "10.0.171.239",
            f"{service}_SERVICE_PORT": "8400",
            f"{service}_SERVICE_PORT_HTTP": "8400",
            f"{service}_PORT": "tcp://10.0.171.239:8400",
            f"{service}_PORT_8400_TCP": "tcp://10.0.171.239:8400",
            f"{service}_PORT_8400_TCP_PROTO": "tcp",
            f"{service}_PORT_8400_TCP_PORT": "8400",
            f"{service}_PORT_8400_TCP_ADDR": "10.0.171.239",
        }
        assert Settings.load(made) == Settings()
        assert Settings.load(made | {"REDRIVE_WORKER_THREADS": "7"}).worker_threads == 7

    def test_no_setting_has_a_name_that_kubernetes_could_take(self) -> None:
        assert not [setting.name for setting in SETTINGS if is_foreign(setting.environment, "17")]


class TestFile:
    @pytest.mark.parametrize("heading", ["", "[redrive]\n"])
    def test_at_the_top_or_in_a_table(self, tmp_path: Path, heading: str) -> None:
        file = toml(tmp_path, f'{heading}worker_concurrency = 7\nschema = "jobs"\nretention_days = "never"\n')
        expected = Settings(worker_concurrency=7, schema="jobs", retention_days=None)
        assert Settings.load({}, file) == expected
        assert Settings.load({}, str(file)) == expected
        assert Settings.load({"REDRIVE_CONFIG": str(file)}) == expected

    def test_the_one_that_is_given_comes_before_the_variable(self, tmp_path: Path) -> None:
        file = toml(tmp_path, "worker_threads = 7\n")
        assert Settings.load({"REDRIVE_CONFIG": "/does/not/exist"}, file).worker_threads == 7

    def test_an_empty_one(self, tmp_path: Path) -> None:
        assert Settings.load({}, toml(tmp_path, "")) == Settings()
        assert Settings.load({}, toml(tmp_path, "[redrive]\n")) == Settings()
        assert Settings.load({"REDRIVE_CONFIG": ""}) == Settings()

    @pytest.mark.parametrize("variable", ["REDRIVE_WORKER_CONCURRENCY", "WORKER_CONCURRENCY"])
    def test_the_environment_wins(self, tmp_path: Path, variable: str) -> None:
        file = toml(tmp_path, "worker_concurrency = 7\nworker_threads = 8\n")
        settings = Settings.load({variable: "9"}, file)
        assert (settings.worker_concurrency, settings.worker_threads) == (9, 8)

    def test_a_bad_value_is_refused_also_where_the_environment_wins(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidValueError, match=r"^worker_threads in "):
            Settings.load({"REDRIVE_WORKER_THREADS": "8"}, toml(tmp_path, "worker_threads = 0\n"))

    def test_other_tables_in_the_file(self, tmp_path: Path) -> None:
        file = toml(tmp_path, 'title = "shop"\n[redrive]\nworker_threads = 7\n[web]\nport = 80\n')
        assert Settings.load({}, file).worker_threads == 7

    def test_a_setting_next_to_the_table_is_refused(self, tmp_path: Path) -> None:
        file = toml(tmp_path, 'schema = "jobs"\n[redrive]\nworker_threads = 7\n')
        with pytest.raises(
            InvalidValueError, match=r"^schema in .* is outside the table \[redrive\]; move it"
        ):
            Settings.load({}, file)

    @loop_over(
        ("key", "suggestion"),
        [
            ("worker_concurency", "worker_concurrency"),
            ("WORKER_CONCURRENCY", "worker_concurrency"),
            ("worker-concurrency", "worker_concurrency"),
            ("concurrency", "org_concurrency"),
            ("database", "database_url"),
            ("retry_max_attemps", "retry_max_attempts"),
        ],
    )
    @loop_over("heading", ["", "[redrive]\n"])
    def test_an_unknown_key(self, tmp_path: Path, heading: str, key: str, suggestion: str) -> None:
        with pytest.raises(
            InvalidValueError, match=f"^there is no setting '{key}' in .*redrive.toml; did you mean "
        ):
            Settings.load({}, toml(tmp_path, f"{heading}{key} = 7\n"))
        with pytest.raises(InvalidValueError, match=rf"did you mean {suggestion}\?$"):
            Settings.load({}, toml(tmp_path, f"{heading}{key} = 7\n"))

    def test_an_unknown_key_that_is_near_to_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(
            InvalidValueError,
            match=r"^there is no setting 'zzz' in .*; remove it, then run `redrive config` to list",
        ):
            Settings.load({}, toml(tmp_path, 'zzz = "secret-7"\n'))

    def test_the_value_of_an_unknown_key_is_not_shown(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidValueError) as caught:
            Settings.load({}, toml(tmp_path, 'database_uri = "secret-7"\n'))
        assert "secret-7" not in str(caught.value)

    def test_redrive_that_is_no_table(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidValueError, match=r"^there is no setting 'redrive'"):
            Settings.load({}, toml(tmp_path, "redrive = 7\n"))

    def test_one_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(
            InvalidValueError, match=r"^cannot read the settings in .*none\.toml: No such file"
        ):
            Settings.load({}, tmp_path / "none.toml")
        with pytest.raises(InvalidValueError, match=r"^cannot read the settings in .*: Is a directory"):
            Settings.load({}, tmp_path)

    @loop_over(
        "content",
        [
            b"worker_threads =",
            b"\xff\xfe",
            b"a = 1\na = 2",
            b"worker_threads = " + b"9" * 5000,
            b"a = 1\x00",
            b"a = " + b"[" * 100_000,
        ],
    )
    def test_one_that_is_not_toml(self, tmp_path: Path, content: bytes) -> None:
        file = tmp_path / "redrive.toml"
        file.write_bytes(content)
        with pytest.raises(InvalidValueError, match=r"^the settings in .*redrive\.toml are not TOML: "):
            Settings.load({}, file)

    def test_one_that_windows_has_written(self, tmp_path: Path) -> None:
        file = tmp_path / "redrive.toml"
        file.write_bytes(b"\xef\xbb\xbfworker_threads = 7\r\nschema = 'jobs'\r\n")
        assert Settings.load({}, file) == Settings(worker_threads=7, schema="jobs")


def yaml(path: Path, text: str, name: str = "redrive.yaml") -> Path:
    file = path / name
    file.write_text(text, encoding="utf-8")
    return file


class TestYaml:
    """M9."""

    @pytest.mark.parametrize("name", ["redrive.yaml", "redrive.yml", "REDRIVE.YAML"])
    def test_by_the_ending_of_its_name(self, tmp_path: Path, name: str) -> None:
        file = yaml(tmp_path, "dlq_interval_sec: 30\ndlq_enabled: off\ndlq_strategy: selective\n", name)
        expected = Settings(dlq_interval_sec=30.0, dlq_enabled=False, dlq_strategy="selective")
        assert Settings.load({}, file) == expected

    def test_in_a_table_next_to_what_belongs_to_others(self, tmp_path: Path) -> None:
        file = yaml(tmp_path, "redrive:\n  worker_threads: 7\nother:\n  - 1\n")
        assert Settings.load({}, file) == Settings(worker_threads=7)

    def test_the_environment_wins(self, tmp_path: Path) -> None:
        file = yaml(tmp_path, "dlq_max_size: 500\n")
        assert Settings.load({"REDRIVE_DLQ_MAX_SIZE": "600"}, file).dlq_max_size == 600

    @pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n"])
    def test_an_empty_one(self, tmp_path: Path, text: str) -> None:
        assert Settings.load({}, yaml(tmp_path, text)) == Settings()

    def test_a_value_out_of_bounds(self, tmp_path: Path) -> None:
        with pytest.raises(
            InvalidValueError,
            match=r"^dlq_interval_sec in .*redrive\.yaml must be a number from 10 to 3,600, got 5$",
        ):
            Settings.load({}, yaml(tmp_path, "dlq_interval_sec: 5\n"))

    @loop_over(
        "text",
        [
            "a: [1",
            "- 1\n- 2",
            "just text",
            "5: 6",
            "!!python/object/apply:os.getcwd []",
            "a: *nowhere",
            "a: \x00",
            "[" * 5000,
        ],
    )
    def test_one_that_is_no_yaml_of_settings(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(InvalidValueError, match=r"^the settings in .*redrive\.yaml are not YAML: "):
            Settings.load({}, yaml(tmp_path, text))

    @loop_over(
        "text",
        [
            'schema: "secret-7',
            "schema: secret-7: b",
            "a: *secret-7",
            "a: !!secret-7 b",
            "a: [secret-7",
            "secret-7\x00",
        ],
    )
    def test_an_error_has_its_place_and_not_the_value(self, tmp_path: Path, text: str) -> None:
        """I9."""
        with pytest.raises(InvalidValueError) as caught:
            Settings.load({}, yaml(tmp_path, f"worker_threads: 7\n{text}\n"))
        assert "secret-7" not in str(caught.value)
        assert "(at line " in str(caught.value) or "\x00" in text

    def test_without_pyyaml(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "yaml", None)
        with pytest.raises(InvalidValueError, match=r"needs PyYAML: install redrive\[yaml\], or use TOML$"):
            Settings.load({}, yaml(tmp_path, "dlq_enabled: true\n"))


class TestRetryPolicy:
    def test_is_step_when_nothing_is_set(self) -> None:
        assert Settings().retry_policy is STEP

    def test_attempts(self) -> None:
        policy = Settings(retry_max_attempts=7).retry_policy
        assert policy == dataclasses.replace(STEP, name="configured", max_attempts=7)

    def test_base_delay(self) -> None:
        policy = Settings(retry_base_delay_ms=500).retry_policy
        assert policy.max_attempts == STEP.max_attempts
        assert policy.backoff.curve == Exponential(0.5, 2.0)
        assert policy.backoff.cap == STEP.backoff.cap == 120.0
        assert policy.backoff.jitter == Proportional(0.25)

    def test_jitter(self) -> None:
        policy = Settings(retry_jitter_max_ms=250).retry_policy
        assert policy.backoff == dataclasses.replace(STEP.backoff, jitter=Additive(0.25))

    def test_p2_as_it_is_documented(self) -> None:
        settings = Settings(retry_max_attempts=3, retry_base_delay_ms=5000, retry_jitter_max_ms=5000)
        waits = [settings.retry_policy.backoff.wait(failures, draw=0.5) for failures in (1, 2)]
        assert [(wait.low, wait.high) for wait in waits if wait is not None] == [(5.0, 10.0), (10.0, 15.0)]

    def test_nothing_is_taken_for_unset(self) -> None:
        backoff = Settings(retry_base_delay_ms=0, retry_jitter_max_ms=0).retry_policy.backoff
        assert (backoff.curve, backoff.jitter) == (Exponential(0.0, 2.0), Additive(0.0))

    def test_a_base_beyond_the_cap_is_meant(self) -> None:
        backoff = Settings(retry_base_delay_ms=600_000).retry_policy.backoff
        assert [backoff.planned(failures) for failures in (1, 2)] == [600.0, 600.0]

    @loop_over("attempts", [1, 1000])
    @loop_over("milliseconds", [0, 86_400_000])
    def test_every_bound_makes_a_policy(self, attempts: int, milliseconds: int) -> None:
        settings = Settings(
            retry_max_attempts=attempts,
            retry_base_delay_ms=milliseconds,
            retry_jitter_max_ms=milliseconds,
        )
        assert settings.retry_policy.max_attempts == attempts


class TestBreakerPolicy:
    def test_is_the_default_when_nothing_is_set(self) -> None:
        assert Settings().breaker_policy == BreakerPolicy()

    def test_as_it_is_set(self) -> None:
        settings = Settings(circuit_window=50, circuit_fail_threshold=0.25, circuit_cooldown_ms=1500)
        expected = BreakerPolicy(window_calls=50, minimum_calls=50, failure_rate=0.25, cool_down=1.5)
        assert settings.breaker_policy == expected

    @loop_over("window", [1, 10_000])
    @loop_over("threshold", [0.001, 1.0])
    @loop_over("cooldown", [0, 86_400_000])
    def test_every_bound_makes_a_policy(self, window: int, threshold: float, cooldown: int) -> None:
        settings = Settings(
            circuit_window=window, circuit_fail_threshold=threshold, circuit_cooldown_ms=cooldown
        )
        policy = settings.breaker_policy
        assert policy.cool_down * 1000 == cooldown
        assert policy.longest_open >= policy.cool_down


class TestTaskTimeout:
    def test_in_seconds(self) -> None:
        assert Settings().task_timeout == 300.0
        assert Settings(gateway_timeout_ms=1).task_timeout == 0.001
        assert Settings(gateway_timeout_ms=15_000).task_timeout == 15.0


class TestTable:
    """The table that the documentation is generated from."""

    def test_has_every_setting(self) -> None:
        assert [setting.name for setting in SETTINGS] == list(DEFAULTS)
        assert {setting.name: setting.default for setting in SETTINGS} == DEFAULTS

    @loop_over("setting", SETTINGS)
    def test_every_setting_is_described(self, setting: Setting) -> None:
        assert setting.environment == variable_of(setting.name)
        assert setting.alias in (None, setting.name.upper())
        assert setting.bounds
        assert setting.meaning
        assert "\n" not in setting.meaning

    @loop_over("setting", SETTINGS)
    def test_every_default_is_allowed_and_none_has_a_word(self, setting: Setting) -> None:
        assert setting.convert(setting.default, setting.name) == setting.default
        assert setting.none == (WORDS | OTHER_WORDS).get(setting.name, "")

    @loop_over(
        ("name", "bounds"),
        [
            ("worker_concurrency", "a whole number from 1 to 10,000"),
            ("worker_grace_sec", "a number from 0 to 3,600"),
            (
                "circuit_fail_threshold",
                "a share from 0.001 to 1, or a percentage from 0.1% to 100% (50% or 50)",
            ),
            ("schema", "1 to 63 bytes of printable text"),
            ("dlq_enabled", "true or false"),
            ("dlq_default_policy", "one of never, linear, exponential, immediate"),
        ],
    )
    def test_bounds_in_words(self, name: str, bounds: str) -> None:
        assert BY_NAME[name].bounds == bounds

    def test_the_word_is_part_of_the_bounds(self) -> None:
        assert BY_NAME["retention_days"].bounds == 'a number from 0.01 to 36,500, or "never"'
