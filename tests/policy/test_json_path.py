"""Paths to values within JSON, as people write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import InvalidValueError
from redrive.policy.json_path import parse_path, path_text

PATHS: dict[str, tuple[str | int, ...]] = {
    "country": ("country",),
    "address.country": ("address", "country"),
    "items[2].price": ("items", 2, "price"),
    "[0]": (0,),
    "[0][1].a": (0, 1, "a"),
    "full name": ("full name",),
    "größe.in-cm": ("größe", "in-cm"),
    '["a.b"].c': ("a.b", "c"),
    'a["b]"][0]': ("a", "b]", 0),
    '[""]': ("",),
    '["[redacted:card]"].amount': ("[redacted:card]", "amount"),
    "a.0": ("a", "0"),
}


@pytest.mark.parametrize(("text", "path"), PATHS.items(), ids=str)
def test_a_path_is_read_and_written(text: str, path: tuple[str | int, ...]) -> None:
    assert parse_path(text) == path
    assert path_text(path) == text


@pytest.mark.parametrize(
    "text",
    ["", ".", ".a", "a.", "a..b", "a[", "a[x]", "a[-1]", 'a["b]', "a[1]b", "a]", '["a"', "a[01x]", '"a"'],
)
def test_the_error_about_a_malformed_path_shows_a_valid_one(text: str) -> None:
    with pytest.raises(InvalidValueError, match=r"items\[2\]\.price"):
        parse_path(text)


def test_any_name_can_be_written() -> None:
    @given(st.lists(st.text() | st.integers(0, 10**6), min_size=1, max_size=5).map(tuple))
    def holds(path: tuple[str | int, ...]) -> None:
        assert parse_path(path_text(path)) == path

    holds()
