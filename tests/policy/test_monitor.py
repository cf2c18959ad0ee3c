"""Monitors over statistics (M10), and the statistics themselves (M7)."""

from __future__ import annotations

from typing import Any

import pytest

from redrive.errors import InvalidValueError
from redrive.model.dead_letter import DeadLetterState
from redrive.model.statistics import STATUS_WORDS, LifetimeStats, Statistics, utilization
from redrive.policy.monitor import Thresholds, alerts


def statistics(
    size: int = 0, most: int | None = 10_000, exhausted: int = 0, lifetime: LifetimeStats | None = None
) -> Statistics:
    return Statistics(
        queue_size=size,
        max_size=most,
        utilization_percent=utilization(size, most),
        status_breakdown={"exhausted": exhausted, "pending": size - exhausted},
        error_categories={},
        retry_policies={},
        is_processor_running=True,
        retry_interval_seconds=60.0,
        lifetime_stats=lifetime or LifetimeStats(),
    )


def names(*args: Any, **options: Any) -> list[str]:
    return [alert.name for alert in alerts(*args, **options)]


class TestAlerts:
    def test_a_quiet_queue_raises_none(self) -> None:
        assert alerts(statistics()) == ()

    @pytest.mark.parametrize(("size", "raised"), [(8000, False), (8001, True), (10_000, True)])
    def test_over_four_fifths_full(self, size: int, raised: bool) -> None:
        assert ("queue_nearly_full" in names(statistics(size))) is raised

    def test_a_queue_without_a_limit_is_never_full(self) -> None:
        assert alerts(statistics(1_000_000, None)) == ()

    @pytest.mark.parametrize(("exhausted", "raised"), [(100, False), (101, True)])
    def test_many_exhausted(self, exhausted: int, raised: bool) -> None:
        assert ("many_exhausted" in names(statistics(200, exhausted=exhausted))) is raised

    @pytest.mark.parametrize(
        ("succeeded", "failed", "raised"),
        [(0, 0, False), (0, 1, True), (1, 0, False), (1, 1, False), (10, 10, False), (9, 10, True)],
    )
    def test_m10_the_success_of_the_lifetime_counts_from_the_first_retry(
        self, succeeded: int, failed: int, raised: bool
    ) -> None:
        lifetime = LifetimeStats(retry_success=succeeded, retry_failed=failed)
        assert ("few_successes" in names(statistics(lifetime=lifetime))) is raised

    def test_a_good_past_does_not_hide_a_bad_present(self) -> None:
        earlier = LifetimeStats(enqueued_total=1000, retry_success=1000)
        now = LifetimeStats(enqueued_total=1030, retry_success=1001, retry_failed=29)
        assert names(statistics(lifetime=now)) == []
        assert names(statistics(lifetime=now), since=earlier) == ["few_successes"]

    @pytest.mark.parametrize(("failed", "raised"), [(19, False), (20, True)])
    def test_m10_the_last_hour_counts_from_enough_redrives_on(self, failed: int, raised: bool) -> None:
        earlier = LifetimeStats(retry_success=1000)
        now = LifetimeStats(retry_success=1000, retry_failed=failed)
        assert names(statistics(lifetime=now), since=earlier) == ["few_successes"] * raised

    def test_they_contain_the_numbers(self) -> None:
        lifetime = LifetimeStats(retry_success=300, retry_failed=900)
        found = alerts(statistics(9000, exhausted=1500, lifetime=lifetime))
        assert [alert.message for alert in found] == [
            "the queue is 90% full (9,000 of 10,000 dead letters)",
            "1,500 dead letters have no automatic redrives left",
            "300 of 1,200 redrives succeeded (25%)",
        ]

    def test_thresholds_are_yours(self) -> None:
        strict = Thresholds(utilization_percent=0.0, exhausted=0, success_percent=100.0, minimum_samples=1)
        lifetime = LifetimeStats(retry_success=99, retry_failed=1)
        found = names(statistics(1, exhausted=1, lifetime=lifetime), strict)
        assert found == ["queue_nearly_full", "many_exhausted", "few_successes"]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"utilization_percent": 101},
            {"exhausted": -1},
            {"success_percent": -0.1},
            {"minimum_samples": 0},
        ],
    )
    def test_thresholds_out_of_bounds(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidValueError, match=next(iter(wrong))):
            Thresholds(**wrong)


class TestStatistics:
    def test_have_these_names(self) -> None:
        """M7."""
        found = statistics(5, lifetime=LifetimeStats(7, 1, 2, 3, 4, 5)).as_dict()
        assert list(found) == [
            "queue_size",
            "max_size",
            "utilization_percent",
            "status_breakdown",
            "error_categories",
            "retry_policies",
            "is_processor_running",
            "retry_interval_seconds",
            "lifetime_stats",
        ]
        assert found["lifetime_stats"] == {
            "enqueued_total": 7,
            "retry_success": 1,
            "retry_failed": 2,
            "exhausted": 3,
            "manually_retried": 4,
            "archived": 5,
            "refused": 0,
        }
        assert type(found["status_breakdown"]) is dict

    def test_every_state_has_a_word(self) -> None:
        assert set(STATUS_WORDS) == set(DeadLetterState)
        assert len(set(STATUS_WORDS.values())) == len(STATUS_WORDS)

    def test_how_full(self) -> None:
        assert (utilization(1, 300), utilization(0, 100), utilization(100, 100)) == (0.33, 0.0, 100.0)
        assert utilization(5, None) == 0.0
