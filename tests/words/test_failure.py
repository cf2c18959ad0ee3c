"""Failures in one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.words.failure import headline, short, summarize_explanation


@loop_over(
    ("message", "error_type", "text"),
    [
        ("'postal_code'", "KeyError", "KeyError: 'postal_code'"),
        ("7", "KeyError", "KeyError: 7"),
        ("{'a@b.example': (550, b'no')}", "smtplib.Refused", "Refused: {'a@b.example': (550, b'no')}"),
        ("division by zero", "ZeroDivisionError", "division by zero"),
        ("unreachable", "reported", "unreachable"),
        ("no price for 'fr'", "ValueError", "no price for 'fr'"),
        ("'postal_code'", None, "'postal_code'"),
        ("", "KeyError", "the title"),
        (None, "KeyError", "the title"),
    ],
)
def test_a_message_that_says_nothing_by_itself_is_told_with_its_kind(
    message: str | None, error_type: str | None, text: str
) -> None:
    assert headline(message, error_type, "the title") == text


@given(st.text(), st.integers(2, 50))
def test_a_short_text_is_short_and_one_line(text: str, limit: int) -> None:
    line = short(text, limit)
    assert len(line) <= limit
    assert "\n" not in line


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
