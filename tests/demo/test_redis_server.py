"""The Redis of the demo: it is optional, and only the demo can use it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from redrive.demo import redis_server


def test_it_needs_a_server_and_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert redis_server.is_available()
    monkeypatch.setenv("PATH", "")
    find = importlib.util.find_spec

    def without(*missing: str) -> Callable[[str], Any]:
        return lambda name: None if name in missing else find(name)

    for missing in ("redis", redis_server.PACKAGE):
        monkeypatch.setattr(importlib.util, "find_spec", without(missing))
        assert not redis_server.is_available(), missing


def test_only_the_demo_knows_its_password_and_it_stops_with_the_demo(tmp_path: Path) -> None:
    file, url = redis_server.configure(tmp_path)
    assert file.stat().st_mode & 0o077 == 0
    command = [sys.executable, "-m", "redrive.demo", "redis", str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == f"{redis_server.READY}\n"
        with redis.Redis.from_url(url) as client:
            assert client.ping()
        host, port = redis_server.HOST, int(url.rpartition(":")[2].partition("/")[0])
        with redis.Redis(host, port) as stranger, pytest.raises(redis.exceptions.AuthenticationError):
            stranger.ping()
        process.stdin.close()
        assert process.wait(30) == 0
    with redis.Redis(host, port) as late, pytest.raises(redis.exceptions.ConnectionError):
        late.ping()
