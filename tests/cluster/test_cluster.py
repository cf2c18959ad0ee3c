"""The shortest form: one frozen primary, and the check that notices a fault without effect."""

from __future__ import annotations

import pytest
from tests.cluster import partition
from tests.cluster.failover import failover
from tests.cluster.network import Host
from tests.cluster.report import Report


def test_a_frozen_primary_is_left_for_its_promoted_standby() -> None:
    report = Report("one failover")

    failover(report, 1, limit=60.0)

    assert report.findings == []
    assert report.acknowledged > 20
    assert report.effects > 20


def test_a_cut_without_effect_is_detected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(partition, "LENGTHS", (2.0,))
    monkeypatch.setattr(Host, "cut", lambda host, ways: None)
    report = Report("no partition")

    partition.partition(report, 1, limit=60.0)

    if "SKIPPED" in capsys.readouterr().out:
        pytest.skip("no network namespaces here")
    assert report.findings == ["partition 1 never took effect"]
