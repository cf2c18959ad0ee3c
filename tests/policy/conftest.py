"""Servers for the tests of classification."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.misbehaving import MisbehavingServer


@pytest.fixture
def server() -> Iterator[MisbehavingServer]:
    with MisbehavingServer() as running:
        yield running
