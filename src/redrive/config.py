"""Settings with bounds, from a file (TOML or YAML), from the environment and from arguments.

Each field of `Settings` says its default, what is allowed and what it means. Reading, checking and the table
in the documentation follow from that.

The file holds the settings under their names, at its top or in a table `[redrive]`. A variable of the
environment, such as REDRIVE_WORKER_CONCURRENCY, wins over the file; an empty one counts as none. An argument
of the command line wins over both.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from redrive.addresses import Address, Hosts, Networks, Url
from redrive.errors import InvalidValueError
from redrive.policy import REDRIVE_POLICIES, STEP, Additive, Backoff, BreakerPolicy, Exponential, RetryPolicy
from redrive.policy.redriving import BY_CATEGORY
from redrive.policy.strategy import Strategy
from redrive.setting import Setting
from redrive.setting_kinds import (
    Choice,
    Flag,
    Keys,
    Kind,
    Name,
    Number,
    Scopes,
    Secret,
    Share,
    Text,
    Whole,
)
from redrive.sourcing import (
    CODE,
    DEFAULT,
    FILE_VARIABLE,
    Sourced,
    from_arguments,
    from_environment,
    from_file,
)

NOTHING: Mapping[str, object] = MappingProxyType({})
DAY_IN_MS = 86_400_000
DEFAULT_TASK_TIMEOUT = 300.0


def _setting(default: Any, kind: Kind, meaning: str, without: str = "") -> Any:
    return field(default=default, metadata={"kind": kind, "meaning": meaning, "without": without})


class _Traced:
    """Where values come from is no value: it does not count when settings are compared, copied or sent."""

    __slots__ = ("_origins",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(_Traced):
    """How an application, its workers and its server behave where the code does not say it: `SETTINGS`."""

    database_url: str = _setting("sqlite:///redrive.db", Address(), "the database that keeps all work")
    schema: str = _setting("redrive", Text(1, 63), "the PostgreSQL schema that holds the tables")
    retry_max_attempts: int | None = _setting(
        None, Whole(1, 1000), "executions of a step in all; by default 4", "default"
    )
    retry_base_delay_ms: int | None = _setting(
        None,
        Whole(0, DAY_IN_MS),
        "the wait after the first failure, doubled after each further one up to 2 minutes; by default 2,000",
        "default",
    )
    retry_jitter_max_ms: int | None = _setting(
        None,
        Whole(0, DAY_IN_MS),
        "up to so much is added to a wait at random; by default a wait is up to 25% shorter or longer",
        "default",
    )
    worker_lease_ttl_sec: float = _setting(
        60.0,
        Number(3, 3600),
        "after so long without a sign of life, a worker's steps are taken over by others",
    )
    gateway_timeout_ms: int | None = _setting(
        None,
        Whole(1, DAY_IN_MS),
        "the time for one attempt of a task that names none; by default 300,000",
        "default",
    )
    worker_concurrency: int = _setting(100, Whole(1, 10_000), "steps that a worker executes at once")
    worker_threads: int = _setting(32, Whole(1, 1000), "threads of a worker for functions that are not async")
    worker_grace_sec: float = _setting(
        30.0, Number(0, 3600), "the time that work in flight has to finish when a worker is told to stop"
    )
    worker_poll_ms: int = _setting(
        1000, Whole(10, 60_000), "how often a worker looks for work that nothing has told it about"
    )
    circuit_window: int = _setting(
        20, Whole(1, 10_000), "so many calls, the last ones, are what a breaker judges by"
    )
    circuit_fail_threshold: float = _setting(
        0.5, Share(0.001), "the share of failed calls at which a breaker opens"
    )
    circuit_cooldown_ms: int = _setting(
        30_000, Whole(0, DAY_IN_MS), "how long a breaker stays open before it tries again"
    )
    retention_days: float | None = _setting(
        30.0, Number(0.01, 36_500), "finished runs are removed after so many days", "never"
    )
    org_concurrency: int | None = _setting(
        None,
        Whole(1, 1_000_000),
        "steps of one organization that are executed at once, over all workers",
        "unlimited",
    )
    code_version: str = _setting("", Text(0, 200), "the version of your code, written with every attempt")
    dlq_enabled: bool = _setting(True, Flag(), "keep a dead letter of what has failed for good")
    dlq_strategy: str = _setting(
        "automatic", Choice(tuple(Strategy)), "which failures become dead letters: all, some, or on request"
    )
    dlq_max_size: int | None = _setting(
        None,
        Whole(100, 100_000),
        "live dead letters of an org; by default 10,000 for a stand-alone queue, any number for runs",
        "default",
    )
    dlq_redrive: str = _setting(
        "never",
        Choice((BY_CATEGORY, *REDRIVE_POLICIES)),
        "how dead letters of runs are redriven automatically, where their task does not say it",
    )
    dlq_default_policy: str = _setting(
        "exponential",
        Choice(tuple(REDRIVE_POLICIES)),
        "how a stand-alone queue redrives failures of which more tries may help",
    )
    dlq_default_max_retries: int = _setting(
        3, Whole(0, 10), "automatic redrives of a dead letter that names no other number"
    )
    dlq_processor_enabled: bool = _setting(True, Flag(), "workers redrive dead letters that are due")
    dlq_interval_sec: float = _setting(60.0, Number(10, 3600), "how often dead letters are looked through")
    dlq_archive_days: float | None = _setting(
        7.0, Number(0.01, 36_500), "dead letters that are exhausted for so many days are archived", "never"
    )

    encryption_keys: tuple[str, ...] | None = _setting(
        None,
        Keys(),
        "payloads and results are encrypted with the first one; the others open what they have sealed before",
        "none",
    )
    encryption_keys_file: str | None = _setting(
        None, Text(1, 4096), "a file that holds the encryption keys instead, one a line", "none"
    )

    server_host: str = _setting("127.0.0.1", Text(1, 253), "the address that the server listens on")
    server_port: int = _setting(
        8400, Whole(0, 65_535), "the port that the server listens on; 0 is any free one"
    )
    server_url: str | None = _setting(
        None, Url(path=False), "where people find the server: for origins, cookies and links", "none"
    )
    server_worker: bool = _setting(False, Flag(), "the server has a worker in its process")
    server_hosts: tuple[str, ...] | None = _setting(
        None, Hosts(), "further hosts that requests may be addressed to", "none"
    )
    server_body_bytes: int = _setting(
        1_048_576, Whole(1024, 67_108_864), "the longest body of a request, in bytes"
    )
    server_page_size: int = _setting(500, Whole(1, 500), "the most rows of one page")
    server_span_days: int = _setting(366, Whole(1, 3660), "the longest span of dates in one query, in days")
    server_key_rate: int = _setting(100, Whole(1, 100_000), "requests a second of one key or session")
    server_org_rate: int = _setting(300, Whole(1, 1_000_000), "requests a second of one organization")
    server_statement_sec: float = _setting(
        5.0, Number(0.1, 60), "the time for one statement in the database that a request asks for"
    )
    server_streams: int = _setting(100, Whole(1, 10_000), "streams of events at once")
    server_drain_sec: float = _setting(
        20.0,
        Number(0, 600),
        "the time that requests in flight have to finish when the server is told to stop",
    )
    server_proxies: tuple[str, ...] | None = _setting(
        None, Networks(), "proxies in front of the server that are believed who a request comes from", "none"
    )
    server_forward_header: str | None = _setting(
        None,
        Name("the name of a header such as X-Forwarded-User", "[A-Za-z][A-Za-z0-9-]{0,99}"),
        "the header in which such a proxy names the user whom it has signed in",
        "none",
    )
    oidc_issuer: str | None = _setting(
        None, Url(path=True), "the OpenID provider that people sign in with", "none"
    )
    oidc_client_id: str | None = _setting(
        None, Text(1, 1000), "the name of this installation at the provider", "none"
    )
    oidc_client_secret: str | None = _setting(None, Secret(), "its secret at the provider", "none")
    oidc_client_secret_file: str | None = _setting(
        None, Text(1, 4096), "a file that holds that secret instead", "none"
    )
    oidc_scopes: str = _setting("openid email profile", Scopes(), "what the provider is asked for")
    oidc_name_claim: str = _setting(
        "email", Name("the name of a claim such as email", r"[!-~]{1,200}"), "the claim that names the user"
    )
    session_idle_hours: float = _setting(
        12.0, Number(0.05, 8760), "a session ends after so many hours without a request"
    )
    session_days: float = _setting(7.0, Number(0.01, 365), "a session ends after so many days in any case")

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            value = setting.checked(getattr(self, setting.name), setting.name)
            object.__setattr__(self, setting.name, value)
        self._refuse_halves()

    def _refuse_halves(self) -> None:
        if self.server_forward_header is not None and self.server_proxies is None:
            raise InvalidValueError(
                "server_forward_header is believed from server_proxies only; set them too, such as 10.0.0.7"
            )
        if (self.oidc_issuer is None) != (self.oidc_client_id is None):
            raise InvalidValueError("oidc_issuer and oidc_client_id need each other; set both, or neither")

    @classmethod
    def load(
        cls,
        environment: Mapping[str, str] = os.environ,
        file: str | Path | None = None,
        arguments: Mapping[str, object] = NOTHING,
    ) -> Settings:
        """Defaults < the file, or the one that REDRIVE_CONFIG names < the environment < arguments."""
        path = file or environment.get(FILE_VARIABLE)
        found = from_file(Path(path), _BY_NAME) if path else {}
        found |= from_environment(environment, _BY_NAME)
        return cls()._with(found | from_arguments(arguments, _BY_NAME))

    def overridden(self, arguments: Mapping[str, object]) -> Settings:
        """The same, except for what arguments of the command line say."""
        return self._with(from_arguments(arguments, _BY_NAME))

    def _with(self, found: Mapping[str, Sourced]) -> Settings:
        settings = replace(self, **{name: each.value for name, each in found.items()})
        origins = self._traced | {name: each.origin for name, each in found.items()}
        object.__setattr__(settings, "_origins", origins)
        return settings

    @property
    def _traced(self) -> dict[str, str]:
        return dict(getattr(self, "_origins", {}))

    def origins(self) -> dict[str, str]:
        """Of each setting, where its value comes from: default, code, a file, a variable, an argument."""
        traced = self._traced
        return {each.name: traced.get(each.name) or self._untraced(each) for each in SETTINGS}

    def _untraced(self, setting: Setting) -> str:
        return DEFAULT if getattr(self, setting.name) == setting.default else CODE

    def __repr__(self) -> str:
        pairs = (f"{each.name}={each.shown(getattr(self, each.name))}" for each in SETTINGS)
        return f"Settings({', '.join(pairs)})"

    @property
    def retry_policy(self) -> RetryPolicy:
        """The policy of tasks that name none: STEP, as far as nothing else is set."""
        if self.retry_max_attempts is self.retry_base_delay_ms is self.retry_jitter_max_ms is None:
            return STEP
        attempts = self.retry_max_attempts or STEP.max_attempts
        return replace(STEP, name="configured", max_attempts=attempts, backoff=self._backoff())

    def _backoff(self) -> Backoff:
        backoff = STEP.backoff
        if self.retry_base_delay_ms is not None:
            base = self.retry_base_delay_ms / 1000.0
            # Whoever asks for a base beyond the cap has not asked for the cap.
            backoff = replace(backoff, curve=Exponential(base, 2.0), cap=max(base, backoff.cap))
        if self.retry_jitter_max_ms is not None:
            backoff = replace(backoff, jitter=Additive(self.retry_jitter_max_ms / 1000.0))
        return backoff

    def read_encryption_keys(self) -> tuple[str, ...]:
        """The keys, the newest first, out of the setting or out of the file that is named; () without."""
        if self.encryption_keys is not None and self.encryption_keys_file is not None:
            raise InvalidValueError("give encryption_keys or encryption_keys_file, not both")
        if self.encryption_keys_file is not None:
            return _keys_in(self.encryption_keys_file)
        return self.encryption_keys or ()

    def read_oidc_client_secret(self) -> str | None:
        """The secret out of the setting, or out of the file that is named."""
        if self.oidc_client_secret is not None and self.oidc_client_secret_file is not None:
            raise InvalidValueError("give oidc_client_secret or oidc_client_secret_file, not both")
        if self.oidc_client_secret_file is None:
            return self.oidc_client_secret
        text = _text_in(self.oidc_client_secret_file, "the secret").strip()
        return str(_BY_NAME["oidc_client_secret"].checked(text, f"what {self.oidc_client_secret_file} holds"))

    @property
    def breaker_policy(self) -> BreakerPolicy:
        cool_down = self.circuit_cooldown_ms / 1000.0
        return BreakerPolicy(
            window_calls=self.circuit_window,
            minimum_calls=self.circuit_window,
            failure_rate=self.circuit_fail_threshold,
            cool_down=cool_down,
            longest_open=max(cool_down, BreakerPolicy().longest_open),
        )

    @property
    def task_timeout(self) -> float:
        """Seconds."""
        timeout = self.gateway_timeout_ms
        return DEFAULT_TASK_TIMEOUT if timeout is None else timeout / 1000.0


SETTINGS: tuple[Setting, ...] = tuple(
    Setting(name=each.name, default=each.default, **each.metadata) for each in fields(Settings)
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}


def _keys_in(path: str) -> tuple[str, ...]:
    text = _text_in(path, "the encryption keys")
    words = [word for line in text.splitlines() for word in line.split(",") if word.strip()]
    keys: tuple[str, ...] = _BY_NAME["encryption_keys"].checked(words, f"each line of {path}")
    return keys


def _text_in(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not text"
        raise InvalidValueError(f"cannot read {what} in {path}: {problem}") from None
