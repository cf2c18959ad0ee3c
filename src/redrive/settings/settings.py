"""All settings: one declaration each, the policies made from them, and the secrets in files."""

import os
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from secrets import token_bytes
from types import MappingProxyType
from typing import Any, Self

from redrive.errors import InvalidFieldError, InvalidValueError
from redrive.policy import REDRIVE_POLICIES, STEP, Additive, Backoff, BreakerPolicy, Exponential, RetryPolicy
from redrive.policy.automatic_redrive import BY_CATEGORY
from redrive.policy.triage import Strategy
from redrive.settings.addresses import DATABASE, HOSTS, NETWORKS, ORIGIN, URL
from redrive.settings.formats import CLAIM, ENCRYPTION_KEYS, FLAG, HEADER, SCOPES, SECRET, SHARE, one_of, text
from redrive.settings.setting import Setting, declare
from redrive.settings.sources import (
    FILE_VARIABLE,
    SourcedValue,
    from_arguments,
    from_environment,
    from_file,
)

DAY_IN_MS = 86_400_000
DEFAULT_TASK_TIMEOUT = 300.0

UP_TO_A_DAY: Any = {"ge": 0, "le": DAY_IN_MS}

_NO_ARGUMENTS: Mapping[str, object] = MappingProxyType({})


class _WithOrigins:
    """Stores the origins of values outside the fields, so that equality, hashing and pickling ignore them."""

    __slots__ = ("_origins",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(_WithOrigins):
    """The configuration of an application, its workers and its server, where code does not override it."""

    database_url: str = declare("sqlite:///redrive.db", "the database that stores all work", DATABASE)
    schema: str = declare("redrive", "the PostgreSQL schema that contains the tables", text(1, 63))
    retry_max_attempts: int | None = declare(
        None, "the maximum number of attempts of a step; 4 by default", ge=1, le=1000, none="default"
    )
    retry_base_delay_ms: int | None = declare(
        None,
        "the wait after the first failure; every failure doubles it, up to 2 minutes; 2,000 by default",
        **UP_TO_A_DAY,
        none="default",
    )
    retry_jitter_max_ms: int | None = declare(
        None,
        "the maximum random delay added to a wait; by default, each wait is up to 25% shorter or longer",
        **UP_TO_A_DAY,
        none="default",
    )
    retry_after_max_days: float = declare(
        7.0,
        "the maximum wait, in days, that a server can ask for with Retry-After; longer ones are cut to it",
        ge=0.001,
        le=365,
    )
    worker_lease_ttl_sec: float = declare(
        60.0, "how long a worker may be silent before other workers take over its steps", ge=3, le=3600
    )
    gateway_timeout_ms: int | None = declare(
        None,
        "the timeout of one attempt, unless the task sets one; 300,000 by default",
        ge=1,
        le=DAY_IN_MS,
        none="default",
    )
    worker_concurrency: int = declare(
        100, "the maximum number of steps that a worker executes at once", ge=1, le=10_000
    )
    worker_payload_bytes: int = declare(
        33_554_432,
        "the total size of claimed payloads, in bytes, at which a worker claims no more runs until it has "
        "finished some",
        ge=1_048_576,
        le=1 << 40,
    )
    worker_threads: int = declare(32, "the number of threads for functions that are not async", ge=1, le=1000)
    worker_grace_sec: float = declare(
        30.0, "how long running work may take to finish when a worker stops", ge=0, le=3600
    )
    worker_poll_ms: int = declare(
        1000, "how often a worker polls for work, in case no notification arrives", ge=10, le=60_000
    )
    circuit_window: int = declare(
        20, "the number of most recent calls that a breaker evaluates", ge=1, le=10_000
    )
    circuit_window_sec: float | None = declare(
        120.0, "the period, in seconds, whose calls a breaker also evaluates", ge=1, le=3600, none="none"
    )
    circuit_minimum_calls: int = declare(
        5,
        "the minimum number of calls in that period (circuit_window_sec) before they can open a breaker",
        ge=1,
        le=10_000,
    )
    circuit_fail_threshold: float = declare(
        0.5, "the share of failed calls at which a breaker opens", SHARE, ge=0.001, le=1
    )
    circuit_cooldown_ms: int = declare(
        30_000, "how long a breaker stays open before it allows a probe", **UP_TO_A_DAY
    )
    retention_days: float | None = declare(
        30.0, "days after which finished runs are deleted", ge=0.01, le=36_500, none="never"
    )
    org_concurrency: int | None = declare(
        None,
        "the maximum number of steps of one organization that run at once, over all workers",
        ge=1,
        le=1_000_000,
        none="unlimited",
    )
    code_version: str = declare("", "the version of your code, stored with every attempt", text(0, 200))
    dlq_enabled: bool = declare(
        True, "whether Redrive stores a dead letter for work that failed permanently", FLAG
    )
    dlq_strategy: str = declare(
        "automatic",
        "which failures become dead letters: all, those that a retry may fix, only on request, or none",
        one_of(Strategy),
    )
    dlq_max_size: int | None = declare(
        None,
        "the maximum number of live dead letters of a stand-alone queue, 10,000 by default; for dead letters "
        "of runs, Redrive only raises an alert and rejects none",
        ge=100,
        le=100_000,
        none="default",
    )
    dlq_redrive: str = declare(
        "never",
        "how dead letters of runs are redriven automatically, unless their task sets a policy",
        one_of((BY_CATEGORY, *REDRIVE_POLICIES)),
    )
    dlq_default_policy: str = declare(
        "exponential",
        "how a stand-alone queue redrives failures that a retry may fix",
        one_of(REDRIVE_POLICIES),
    )
    dlq_default_max_retries: int = declare(
        3, "the maximum number of automatic redrives, unless a task or dead letter sets one", ge=0, le=10
    )
    dlq_processor_enabled: bool = declare(True, "whether workers redrive dead letters that are due", FLAG)
    dlq_interval_sec: float = declare(
        60.0, "how often workers look for dead letters that are due", ge=10, le=3600
    )
    dlq_archive_days: float | None = declare(
        7.0, "days after which exhausted dead letters are archived", ge=0.01, le=36_500, none="never"
    )

    encryption_keys: tuple[str, ...] | None = declare(
        None,
        "encryption keys: the first one encrypts payloads and results, the others decrypt older ones",
        ENCRYPTION_KEYS,
        none="none",
    )
    encryption_keys_file: str | None = declare(
        None,
        "a file with the encryption keys, one per line, instead of encryption_keys",
        text(1, 4096),
        none="none",
    )

    server_host: str = declare("127.0.0.1", "the address that the server listens on", text(1, 253))
    server_port: int = declare(
        8400, "the port that the server listens on; 0 chooses a free port", ge=0, le=65_535
    )
    server_url: str | None = declare(
        None, "the public address of the server, for origins, cookies and links", ORIGIN, none="none"
    )
    server_worker: bool = declare(False, "whether the server runs a worker in its process", FLAG)
    server_hosts: tuple[str, ...] | None = declare(
        None, "additional host names that requests may use", HOSTS, none="none"
    )
    server_body_bytes: int = declare(
        1_048_576, "the maximum size of a request body, in bytes", ge=1024, le=67_108_864
    )
    server_page_size: int = declare(500, "the maximum number of rows on a page", ge=1, le=500)
    server_span_days: int = declare(366, "the maximum span of dates in one query, in days", ge=1, le=3660)
    server_key_rate: int = declare(
        100, "the maximum number of requests per second for each user or key", ge=1, le=100_000
    )
    server_org_rate: int = declare(
        300, "the maximum number of requests per second for each organization", ge=1, le=1_000_000
    )
    server_statement_sec: float = declare(
        5.0, "the timeout of each database statement of a request", ge=0.1, le=60
    )
    server_streams: int = declare(100, "the maximum number of concurrent event streams", ge=1, le=10_000)
    server_drain_sec: float = declare(
        20.0, "how long requests in progress may take to finish when the server stops", ge=0, le=600
    )
    server_proxies: tuple[str, ...] | None = declare(
        None, "trusted proxies: Redrive uses their X-Forwarded-For", NETWORKS, none="none"
    )
    server_forward_header: str | None = declare(
        None, "the header in which a trusted proxy names the user it signed in", HEADER, none="none"
    )
    oidc_issuer: str | None = declare(None, "the OpenID provider that people sign in with", URL, none="none")
    oidc_client_id: str | None = declare(
        None, "the client id of this installation at the provider", text(1, 1000), none="none"
    )
    oidc_client_secret: str | None = declare(None, "the client secret at the provider", SECRET, none="none")
    oidc_client_secret_file: str | None = declare(
        None, "a file with the client secret, instead of oidc_client_secret", text(1, 4096), none="none"
    )
    oidc_scopes: str = declare("openid email profile", "the scopes requested from the provider", SCOPES)
    oidc_name_claim: str = declare("email", "the claim that names the user", CLAIM)
    session_idle_hours: float = declare(
        12.0, "hours without a request after which a session expires", ge=0.05, le=8760
    )
    session_days: float = declare(7.0, "days after which a session expires in any case", ge=0.01, le=365)

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            value = setting.convert(getattr(self, setting.name), setting.name)
            object.__setattr__(self, setting.name, value)
        if self.server_forward_header is not None and self.server_proxies is None:
            raise InvalidValueError(
                "server_forward_header is trusted only from server_proxies; set server_proxies too, such as "
                "10.0.0.7"
            )
        if (self.oidc_issuer is None) != (self.oidc_client_id is None):
            raise InvalidValueError("oidc_issuer and oidc_client_id need each other; set both or neither")

    @classmethod
    def load(
        cls,
        environment: Mapping[str, str] = os.environ,
        file: str | Path | None = None,
        arguments: Mapping[str, object] = _NO_ARGUMENTS,
    ) -> Self:
        """Load settings. Precedence: defaults < `file` or REDRIVE_CONFIG < environment < arguments."""
        path = file or environment.get(FILE_VARIABLE)
        values = from_file(Path(path), _BY_NAME) if path else {}
        values |= from_environment(environment, _BY_NAME)
        return cls()._replace(values | from_arguments(arguments, _BY_NAME))

    @classmethod
    def checked(cls, settings: object) -> Self:
        """Return the given settings; load them if there are none.

        The message about another value does not show it: it may contain a password.
        """
        if settings is None:
            return cls.load()
        if not isinstance(settings, cls):
            raise InvalidFieldError(
                "settings", f"must be of type {cls.__name__}, got {type(settings).__name__}"
            )
        return settings

    def override(self, arguments: Mapping[str, object]) -> Self:
        """Return a copy with the settings from command line arguments."""
        return self._replace(from_arguments(arguments, _BY_NAME))

    def _replace(self, values: Mapping[str, SourcedValue]) -> Self:
        settings = replace(self, **{name: sourced.value for name, sourced in values.items()})
        origins = getattr(self, "_origins", {}) | {name: sourced.origin for name, sourced in values.items()}
        object.__setattr__(settings, "_origins", origins)
        return settings

    def origins(self) -> dict[str, str]:
        """Return the origin of each value: default, code, a file, a variable or an argument."""
        loaded = getattr(self, "_origins", {})
        return {
            setting.name: loaded.get(setting.name)
            or ("default" if getattr(self, setting.name) == setting.default else "code")
            for setting in SETTINGS
        }

    def __repr__(self) -> str:
        pairs = (f"{setting.name}={setting.represent(getattr(self, setting.name))}" for setting in SETTINGS)
        return f"Settings({', '.join(pairs)})"

    @property
    def retry_policy(self) -> RetryPolicy:
        """The policy of tasks that set none: STEP with the changes from the settings."""
        if self.retry_max_attempts is self.retry_base_delay_ms is self.retry_jitter_max_ms is None:
            return STEP
        attempts = self.retry_max_attempts or STEP.max_attempts
        return replace(STEP, name="configured", max_attempts=attempts, backoff=self._backoff())

    def _backoff(self) -> Backoff:
        backoff = STEP.backoff
        if self.retry_base_delay_ms is not None:
            base = self.retry_base_delay_ms / 1000.0
            # A base above the default cap raises the cap.
            backoff = replace(backoff, curve=Exponential(base, 2.0), cap=max(base, backoff.cap))
        if self.retry_jitter_max_ms is not None:
            backoff = replace(backoff, jitter=Additive(self.retry_jitter_max_ms / 1000.0))
        return backoff

    @property
    def breaker_policy(self) -> BreakerPolicy:
        cool_down = self.circuit_cooldown_ms / 1000.0
        return BreakerPolicy(
            window_calls=self.circuit_window,
            window_seconds=self.circuit_window_sec,
            minimum_calls=self.circuit_window,
            minimum_recent_calls=self.circuit_minimum_calls,
            failure_rate=self.circuit_fail_threshold,
            cool_down=cool_down,
            longest_open=max(cool_down, BreakerPolicy().longest_open),
        )

    @property
    def task_timeout(self) -> float:
        """The timeout of tasks that set none, in seconds."""
        timeout = self.gateway_timeout_ms
        return DEFAULT_TASK_TIMEOUT if timeout is None else timeout / 1000.0

    def read_encryption_keys(self) -> tuple[str, ...]:
        """Return the keys from the setting or from its file, newest first."""
        if self.encryption_keys is not None and self.encryption_keys_file is not None:
            raise InvalidValueError("set encryption_keys or encryption_keys_file, not both")
        if self.encryption_keys_file is None:
            return self.encryption_keys or ()
        content = _read_secret_file(self.encryption_keys_file, "the encryption keys")
        keys = [key for line in content.splitlines() for key in line.split(",") if key.strip()]
        return tuple(_BY_NAME["encryption_keys"].convert(keys, f"each line of {self.encryption_keys_file}"))

    def read_oidc_client_secret(self) -> str | None:
        """Return the client secret from the setting or from its file."""
        if self.oidc_client_secret is not None and self.oidc_client_secret_file is not None:
            raise InvalidValueError("set oidc_client_secret or oidc_client_secret_file, not both")
        if self.oidc_client_secret_file is None:
            return self.oidc_client_secret
        content = _read_secret_file(self.oidc_client_secret_file, "the secret").strip()
        where = f"the content of {self.oidc_client_secret_file}"
        return str(_BY_NAME["oidc_client_secret"].convert(content, where))


SETTINGS: tuple[Setting, ...] = tuple(map(Setting.declared_by, fields(Settings)))
_BY_NAME = {setting.name: setting for setting in SETTINGS}


def _read_secret_file(path: str, content: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not text"
        raise InvalidValueError(f"cannot read {content} in {path}: {problem}") from None


def new_encryption_key() -> str:
    """Generate a key, to put first in `encryption_keys`."""
    return urlsafe_b64encode(token_bytes(32)).decode()
