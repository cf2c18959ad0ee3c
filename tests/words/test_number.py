"""Numbers and lists of names."""

from __future__ import annotations

import pytest

from redrive.words.number import names, noun, number, percent, plural, size


def test_a_number_has_separators_and_at_most_one_decimal() -> None:
    assert [number(value) for value in (0, 12_345, 0.5, 2.0, 1_234.56)] == [
        "0",
        "12,345",
        "0.5",
        "2",
        "1,234.6",
    ]


def test_a_noun_fits_its_number() -> None:
    assert [plural(value, "run") for value in (0, 1, 2_000)] == ["0 runs", "1 run", "2,000 runs"]
    assert plural(2, "entry", "entries") == "2 entries"
    assert noun(1, "is", "are") == "is"
    assert noun(0, "is", "are") == "are"


def test_a_percentage_is_never_rounded_to_all_or_none() -> None:
    shares = (0.0, 0.001, 0.5, 0.999, 1.0)
    assert [percent(share) for share in shares] == ["0%", "< 1%", "50%", "> 99%", "100%"]


@pytest.mark.parametrize(
    ("number_of_bytes", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1_500, "2 KB"), (12e6, "12 MB"), (3e9, "3 GB"), (2.5e12, "2.5 TB")],
)
def test_a_size_has_a_decimal_unit(number_of_bytes: float, text: str) -> None:
    assert size(number_of_bytes) == text


def test_names_beyond_the_limit_are_counted() -> None:
    assert names([], 3) == ""
    assert names(["a", "b", "c"], 3) == "a, b, c"
    assert names(["a", "b", "c", "d", "e"], 3) == "a, b, c and 2 more"
