"""Failures in one line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.words.failure import headline, short


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
def test_a_message_without_content_is_shown_with_its_type(
    message: str | None, error_type: str | None, text: str
) -> None:
    assert headline(message, error_type, "the title") == text


@given(st.text(), st.integers(2, 50))
def test_a_short_text_is_short_and_one_line(text: str, limit: int) -> None:
    line = short(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
