"""Settings with bounds, from a file (TOML or YAML) and from the environment.

Each field of `Settings` says its default, what is allowed and what it means. Reading, checking and the table
in the documentation follow from that.

The file holds the settings under their names, at its top or in a table `[redrive]`. A variable of the
environment, such as REDRIVE_WORKER_CONCURRENCY, wins over the file; an empty one counts as none.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from redrive.document import read_document
from redrive.errors import InvalidValueError
from redrive.policy import REDRIVE_POLICIES, STEP, Additive, Backoff, BreakerPolicy, Exponential, RetryPolicy
from redrive.policy.redriving import BY_CATEGORY
from redrive.policy.strategy import Strategy
from redrive.setting import PREFIX, Address, Choice, Flag, Keys, Kind, Number, Setting, Share, Text, Whole

FILE_VARIABLE = f"{PREFIX}CONFIG"
DAY_IN_MS = 86_400_000
DEFAULT_TASK_TIMEOUT = 300.0


def _setting(default: Any, kind: Kind, meaning: str, without: str = "") -> Any:
    return field(default=default, metadata={"kind": kind, "meaning": meaning, "without": without})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How an application and its workers behave where the code does not say it: see `SETTINGS`."""

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

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            value = setting.checked(getattr(self, setting.name), setting.name)
            object.__setattr__(self, setting.name, value)

    @classmethod
    def load(cls, environment: Mapping[str, str] = os.environ, file: str | Path | None = None) -> Settings:
        """The settings of the file, or of the one that REDRIVE_CONFIG names, and of the environment."""
        path = file or environment.get(FILE_VARIABLE)
        from_file = {} if not path else _from_file(Path(path))
        return cls(**(from_file | _from_environment(environment)))

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


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for setting in SETTINGS:
        if (found := setting.text_in(environment)) is not None:
            variable, text = found
            values[setting.name] = setting.checked(setting.parsed(text), variable)
    return values


def _from_file(path: Path) -> dict[str, Any]:
    values = {}
    for key, value in _table(path).items():
        if key not in _BY_NAME:
            raise InvalidValueError(f"there is no setting {key!r} in {path}{_suggestion(key)}")
        values[key] = _BY_NAME[key].checked(value, f"{key} in {path}")
    return values


def _keys_in(path: str) -> tuple[str, ...]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it is not text"
        raise InvalidValueError(f"cannot read the encryption keys in {path}: {problem}") from None
    words = [word for line in text.splitlines() for word in line.split(",") if word.strip()]
    keys: tuple[str, ...] = _BY_NAME["encryption_keys"].checked(words, f"each line of {path}")
    return keys


def _table(path: Path) -> dict[str, Any]:
    """The settings of a file; beside a table [redrive] it may hold what belongs to others."""
    document = read_document(path)
    table = document.get("redrive")
    if not isinstance(table, dict):
        return document
    for key in document:
        if key in _BY_NAME:
            raise InvalidValueError(f"{key} in {path} stands outside of [redrive]; move it into that table")
    return table


def _suggestion(key: str) -> str:
    near = get_close_matches(key.lower().replace("-", "_"), _BY_NAME, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(_BY_NAME)}"
