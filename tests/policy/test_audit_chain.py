"""The audit chain: each kind of tampering, and what the verification reports (W16, I14)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.model.audit import Entry, Head
from redrive.policy.audit_chain import (
    MAX_FAULTS,
    MAX_SUSPECTS,
    ChainCheck,
    ChainFault,
    FaultKind,
    chain_hash,
    chained,
)


def entry(number: int, **changes: Any) -> Entry:
    made = Entry("acme", 0, 100.0 + number, "ana", "dead_letter.noted", f"letter-{number}", None, "{}", "")
    return made._replace(**changes)


def chain(number: int) -> list[Entry]:
    return list(chained(Head("acme", 0, ""), [entry(each) for each in range(1, number + 1)]))


def head_of(entries: list[Entry]) -> Head:
    return Head("acme", entries[-1].sequence, entries[-1].hash)


def faults(entries: list[Entry], head: Head, exported: Head | None = None) -> list[ChainFault]:
    check = ChainCheck("acme", exported)
    for start in range(0, len(entries), 3):  # in pages
        check.take(entries[start : start + 3])
    return check.finish(head, entries[-1].sequence if entries else 0)


def found(entries: list[Entry], head: Head, exported: Head | None = None) -> list[tuple[str, int]]:
    return [(each.kind, each.sequence) for each in faults(entries, head, exported)]


def test_an_untouched_chain_has_no_faults() -> None:
    entries = chain(10)
    assert [each.sequence for each in entries] == list(range(1, 11))
    assert found(entries, head_of(entries), head_of(entries[:4])) == []
    assert found([], Head("acme", 0, ""), Head("acme", 0, "")) == []


def test_a_chain_can_be_continued_from_its_head() -> None:
    entries = chain(5)
    again = list(chained(head_of(entries[:3]), [entry(4), entry(5)]))
    assert again == entries[3:]


@loop_over(
    ("field", "value"),
    [
        ("org", "evil"),
        ("at", 105.0000001),
        ("actor", "eve"),
        ("action", "dead_letter.resolved"),
        ("subject", "letter-6"),
        ("subjects", "[]"),
        ("detail", '{"reason":"x"}'),
        ("hash", "0" * 64),
    ],
)
def test_an_edit_of_any_field_is_found(field: str, value: Any) -> None:
    entries = chain(10)
    head = head_of(entries)
    entries[4] = entries[4]._replace(**{field: value})
    assert ("edited", 5) in found(entries, head)


def test_an_edit_with_a_fitting_hash_shows_at_the_next_entry() -> None:
    entries = chain(10)
    head = head_of(entries)
    edited = entries[4]._replace(actor="eve")
    entries[4] = edited._replace(hash=chain_hash(entries[3].hash, edited))
    [fault] = faults(entries, head)
    assert (fault.kind, fault.sequence) == (FaultKind.EDITED, 6)
    assert "or the one before it" in fault.text


def test_an_edit_of_the_last_entry_with_a_fitting_hash_shows_at_the_head() -> None:
    entries = chain(10)
    head = head_of(entries)
    edited = entries[9]._replace(actor="eve")
    entries[9] = edited._replace(hash=chain_hash(entries[8].hash, edited))
    assert found(entries, head) == [("edited", 10)]


@pytest.mark.parametrize(("gone", "first"), [([0], 1), ([4], 5), ([4, 5, 6], 5), ([0, 1], 1)])
def test_a_deletion_is_found_where_it_was_made(gone: list[int], first: int) -> None:
    entries = chain(10)
    left = [each for number, each in enumerate(entries) if number not in gone]
    assert found(left, head_of(entries)) == [("deleted", first)]


def test_a_deletion_that_was_closed_up_is_found() -> None:
    entries = chain(10)
    moved = [each._replace(sequence=each.sequence - 1) for each in entries[5:]]
    shown = found([*entries[:4], *moved], head_of(entries))
    assert shown[0] == ("edited", 5)
    assert shown[-1] == ("truncated", 10)


@pytest.mark.parametrize(("one", "other"), [(4, 5), (0, 1), (2, 8), (0, 9), (8, 9)])
def test_two_entries_that_changed_places_are_found_as_reordered(one: int, other: int) -> None:
    entries = chain(10)
    head = head_of(entries)
    first, second = entries[one], entries[other]
    entries[one] = second._replace(sequence=first.sequence)
    entries[other] = first._replace(sequence=second.sequence)
    reordered = [place for kind, place in found(entries, head) if kind == "reordered"]
    assert reordered == [one + 1, other + 1]


def test_contents_that_changed_places_without_their_hashes_are_found_as_reordered() -> None:
    entries = chain(10)
    head = head_of(entries)
    first, second = entries[4], entries[5]
    entries[4] = second._replace(sequence=5, hash=first.hash)
    entries[5] = first._replace(sequence=6, hash=second.hash)
    assert found(entries, head) == [("reordered", 5), ("reordered", 6)]
    assert faults(entries, head)[0].text == "It was written as entry 6."


def test_a_cut_end_is_found_by_the_stored_head() -> None:
    entries = chain(10)
    assert found(entries[:7], head_of(entries)) == [("truncated", 8)]
    assert faults(entries[:9], head_of(entries))[0].text == "Entry 10 is missing."
    assert faults([], head_of(entries))[0].text == "Entries 1 to 10 are missing."


def test_a_cut_end_with_a_fitting_stored_head_is_found_by_an_exported_one() -> None:
    entries = chain(10)
    assert found(entries[:7], head_of(entries[:7])) == []
    assert found(entries[:7], head_of(entries[:7]), head_of(entries)) == [("truncated", 8)]
    assert found([], Head("acme", 0, ""), head_of(entries)) == [("truncated", 1)]


def test_a_chain_that_was_written_again_is_found_by_an_exported_head() -> None:
    exported = head_of(chain(7))
    forged = list(chained(Head("acme", 0, ""), [entry(number, actor="eve") for number in range(1, 11)]))
    assert found(forged, head_of(forged)) == []
    assert found(forged, head_of(forged), exported) == [("foreign head", 7)]


@pytest.mark.parametrize("exported", [Head("other", 3, "x"), Head("acme", 0, "x"), Head("acme", 3, "x")])
def test_a_foreign_head_is_distinguished_from_a_broken_chain(exported: Head) -> None:
    entries = chain(5)
    assert found(entries, head_of(entries), exported) == [("foreign head", exported.sequence)]


def test_entries_beyond_the_head_are_found() -> None:
    entries = chain(10)
    assert found(entries, head_of(entries[:8])) == [("added", 9)]


def test_faults_are_all_counted_and_listed_up_to_a_number() -> None:
    entries = [each._replace(actor="eve") for each in chain(3 * MAX_FAULTS)]
    check = ChainCheck("acme")
    check.take(entries)
    listed = check.finish(head_of(entries), len(entries))
    assert (check.checked, check.found, len(listed)) == (300, 300, MAX_FAULTS)
    assert len(entries) > MAX_SUSPECTS


_TEXTS = st.text(max_size=20)


@given(st.tuples(_TEXTS, _TEXTS, _TEXTS, _TEXTS), st.tuples(_TEXTS, _TEXTS, _TEXTS, _TEXTS))
def test_different_entries_have_different_hashes_however_their_texts_run_together(
    one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    def made(texts: tuple[str, ...]) -> Entry:
        actor, action, subject, detail = texts
        return entry(1, actor=actor, action=action, subject=subject, detail=detail)

    assert (chain_hash("", made(one)) == chain_hash("", made(other))) == (one == other)


def test_damaged_rows_can_be_checked() -> None:
    entries = chain(3)
    head = head_of(entries)
    damage: Any = {"detail": b"\xff", "at": None, "actor": "\ud800"}
    entries[1] = entries[1]._replace(**damage)
    assert ("edited", 2) in found(entries, head)
