"""Decisions in a few words."""

from __future__ import annotations

import pytest

from redrive.words.decision import summarize_explanation

WAIT = "wait min(120, 2 · 2^(3 - 1)) = 8 s, jitter ±25% [6 … 10], draw 0.5612 → 8.24493 s"


@pytest.mark.parametrize(
    ("explanation", "text"),
    [
        (
            "timeout (rule httpx:TimeoutException); trying again may help; failure 3, at most 4 attempts; "
            f"{WAIT}; due 2026-11-16T00:46:36.015Z",
            "trying again may help",
        ),
        (
            "timeout (rule httpx:TimeoutException); all attempts are used up; failure 4, at most 4 attempts",
            "all 4 attempts are used up",
        ),
        (
            "rate_limit (rule status 429); the server said when to come back; not counted as a failure; "
            "the server asked for 20 s; due 2026-11-16T00:46:36.015Z",
            "the server said when to come back; not counted as a failure; the server asked for 20 s",
        ),
        ("the attempt succeeded", "the attempt succeeded"),
        ("due to the weather", "due to the weather"),
        ("", ""),
    ],
)
def test_how_it_was_computed_is_left_out(explanation: str, text: str) -> None:
    assert summarize_explanation(explanation) == text
