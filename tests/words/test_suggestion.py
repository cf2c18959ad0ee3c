"""Suggestions for mistyped words."""

from __future__ import annotations

from redrive.words.suggestion import MAX_LISTED, closest, suggest

KNOWN = ("open", "ignored", "resolved")


def test_the_most_similar_name_is_suggested() -> None:
    assert suggest("opne", KNOWN) == "did you mean 'open'?"
    assert suggest("OPNE", KNOWN) == "did you mean 'open'?"
    assert closest("opne", KNOWN) == "open"


def test_without_a_similar_name_the_known_ones_are_listed() -> None:
    assert closest("zzz", KNOWN) is None
    assert suggest("zzz", KNOWN) == "use one of: open, ignored, resolved"
    assert suggest("zzz", set(KNOWN)) == "use one of: ignored, open, resolved"
    assert suggest("zzz", []) == "none exist yet"


def test_a_caller_can_replace_the_list() -> None:
    assert suggest("zzz", KNOWN, otherwise="see --help") == "see --help"
    assert suggest("opne", KNOWN, otherwise="see --help") == "did you mean 'open'?"


def test_a_long_list_is_cut() -> None:
    known = [f"name-{number:02}" for number in range(MAX_LISTED + 2)]
    assert suggest("zzz", known).endswith("name-39 and 2 more")


def test_an_alias_counts_as_a_known_name() -> None:
    aliases = {"dismissed": "ignored", "gone": "deleted"}
    assert suggest("dismissed", KNOWN, aliases=aliases) == "did you mean 'ignored'?"
    assert suggest("Dismissed", KNOWN, aliases=aliases) == "did you mean 'ignored'?"
    assert suggest("gone", KNOWN, aliases=aliases) == "use one of: open, ignored, resolved"


def test_a_long_word_is_compared_by_its_beginning() -> None:
    assert closest("x" * 1_000_000, KNOWN) is None
