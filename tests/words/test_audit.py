"""The audit in sentences, and one line for each bulk replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from tests.cases import loop_over

from redrive.model.audit import Action
from redrive.words.audit import describe_detail, describe_entry, describe_fold, fold_entries


class Entry(NamedTuple):
    action: str
    subjects: tuple[str, ...] = ("a",)
    detail: Mapping[str, Any] = {}
    actor: str = "ana"


def own(action: str, *subjects: str) -> Entry:
    return Entry(action, subjects, {}, "redrive")


@pytest.mark.parametrize("action", Action)
def test_every_action_has_a_sentence(action: Action) -> None:
    for number in (0, 1, 2):
        text = describe_entry(Entry(action, ("x",) * number))
        assert text[0].isupper()
        assert action.partition(".")[2] not in text or "." not in text
        assert "{" not in text
        assert "_" not in text


@loop_over(
    ("name", "value", "label", "text"),
    [
        ("mode", "FROM_STEP", "mode", "from the failed step to the end"),
        ("from_step", 0, "step", "1"),
        ("policy_override", True, "policy override", "yes"),
        ("changed_fields", ["a", "b.c"], "changed fields", "a, b.c"),
        ("before", "DLQ_PENDING", "before", "dead letter"),
        ("reason", "fixed", "reason", "fixed"),
        ("items", {"a": 1}, "items", '{"a": 1}'),
        ("before", {"OPEN": 4, "EXHAUSTED": 2}, "before", "4 open, 2 exhausted"),
    ],
)
def test_a_detail_is_written_in_words(name: str, value: object, label: str, text: str) -> None:
    assert describe_detail(name, value) == (label, text)


def test_a_sentence_counts_the_subjects() -> None:
    assert describe_entry(Entry("dead_letter.resolved")) == "Resolved a dead letter"
    assert describe_entry(Entry("dead_letter.resolved", ("a", "b"))) == "Resolved 2 dead letters"
    assert describe_entry(Entry("key.created")) == "Created an API key"
    assert describe_entry(Entry("replay.requested", detail={"automatic": True})).endswith("automatically")
    assert describe_entry(Entry("dead_letter.assigned", detail={"assignee": None})).startswith("Unassigned")
    assert describe_entry(Entry("planet.moved")) == "planet: moved"


def test_the_entries_of_a_bulk_replay_are_one_line() -> None:
    entries = [
        own("operation.finished", "op"),
        own("dead_letter.moved", "c"),
        own("replay.failed", "b"),
        own("dead_letter.resolved", "a"),
        Entry("dead_letter.noted", ("a",)),
        own("replay.succeeded", "a"),
        Entry("replay.requested", ("a", "b"), {"operation": "op"}),
        Entry("operation.started", ("op",)),
        own("dead_letter.moved", "a", "b"),
    ]
    folds, used = fold_entries(entries, 50)
    assert used == len(entries)
    lines = [describe_fold(entries, operation) for entries, operation in folds]
    assert [line.text for line in lines] == [
        "Bulk replay: 2 replayed, 1 succeeded, 1 failed, finished",
        "Created a dead letter",
        "Wrote a note on a dead letter",
        "Created 2 dead letters",
    ]
    assert [line.operation for line in lines] == ["op", None, None, None]
    assert lines[0].actor == "ana"
    assert [fold.number for fold, _ in folds] == [6, 1, 1, 1]


def test_a_later_single_replay_is_not_part_of_the_bulk_replay() -> None:
    entries = [
        own("replay.failed", "a"),
        Entry("replay.requested", ("a",), {"mode": "FROM_STEP"}),
        own("replay.failed", "a"),
        Entry("replay.requested", ("a",), {"operation": "op"}),
    ]
    assert [operation for _, operation in fold_entries(entries, 50)[0]] == [None, None, "op"]


def test_a_page_ends_before_the_first_entry_of_the_next_line() -> None:
    entries = [own("operation.finished", "op"), Entry("run.retried"), own("operation.started", "op")]
    folds, used = fold_entries([*entries, Entry("run.cancelled"), Entry("run.retried")], 2)
    assert (len(folds), used) == (2, 3)
    assert fold_entries([], 2) == ([], 0)
