"""What a failure is called in a line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.server.admin.headline import headline, pieces


@pytest.mark.parametrize(
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


def test_an_address_is_broken_after_its_slashes() -> None:
    assert pieces("POST https://api.example/v1/charges") == ["POST https://api.example/", "v1/", "charges"]
    assert pieces("over / and out/") == ["over /", " and out/"]
    assert pieces("") == [""]


@given(st.text())
def test_nothing_is_lost_by_that(text: str) -> None:
    assert "".join(pieces(text)) == text
