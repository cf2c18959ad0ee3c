"""Two attempts side by side: differences are marked, and comparing long tracebacks stays fast."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.engine.run_view import AttemptView
from redrive.model.decision import DecisionFacts
from redrive.model.step import AttemptOutcome
from redrive.server.admin.attempts import (
    MAX_DIFF_LINES,
    MAX_LINE_LENGTH,
    MAX_LINES,
    MAX_ROWS,
    Field,
    attempt_rows,
    compare_attempts,
    pair_of,
    stack_diff,
)

ATTEMPT = AttemptView(
    step_index=0,
    step="charge",
    number=1,
    outcome=AttemptOutcome.FAILED,
    worker="w1",
    code_version="1.0",
    started_at=100.0,
    ended_at=101.0,
    reason="backoff",
    decision=DecisionFacts("backoff"),
    delay=2.0,
    category="timeout",
    error_class="retryable",
    error_type="httpx.ReadTimeout",
    message="no answer in 5 s",
    stack="a\nb\nc",
    http_status=None,
    public_code=None,
    public_message=None,
    replay=0,
    output=None,
)


def marked(after: AttemptView) -> dict[str, tuple[str, str]]:
    return {
        each.name: (each.before, each.after)
        for each in compare_attempts(ATTEMPT, after).fields
        if each.changed
    }


def test_equal_attempts_have_nothing_marked() -> None:
    assert marked(ATTEMPT._replace(number=2, started_at=300.0, ended_at=301.2)) == {}
    again = compare_attempts(ATTEMPT, ATTEMPT._replace(decision=DecisionFacts("backoff", due_at=5.0)))
    assert again.changed == ()
    assert [each.name for each in again.unchanged][-2:] == ["Decision", "Duration"]
    spent = compare_attempts(ATTEMPT, ATTEMPT._replace(reason="attempts_spent"))
    assert [each.name for each in spent.changed] == ["Decision"]


def test_differences_are_marked() -> None:
    after = ATTEMPT._replace(
        outcome=AttemptOutcome.LOST,
        worker="w2",
        code_version=None,
        category="network",
        http_status=503,
        delay=None,
    )
    assert marked(after) == {
        "Outcome": ("Failed", "Worker lost"),
        "Worker": ("w1", "w2"),
        "Code version": ("1.0", "–"),
        "Category": ("timeout", "network"),
        "HTTP status": ("–", "503"),
        "Delay after it": ("2 s", "–"),
    }


@pytest.mark.parametrize(
    ("ended_at", "noticed"), [(101.0, False), (101.4, False), (101.6, True), (100.1, True), (None, True)]
)
def test_how_long_it_took_is_marked_when_that_is_noticeable(ended_at: float | None, noticed: bool) -> None:
    took = compare_attempts(ATTEMPT, ATTEMPT._replace(ended_at=ended_at)).fields[-1]
    assert took.name == "Duration"
    assert took.changed is noticed


def test_both_may_be_unknown() -> None:
    empty = ATTEMPT._replace(started_at=None, stack=None)
    told = compare_attempts(empty, empty)
    assert told.fields[-1] == Field("Duration", "–", "–", False)
    assert told.stack.equal


def test_the_lines_that_differ_are_shown_with_some_around_them() -> None:
    before = "\n".join(f"line {n}" for n in range(40))
    told = stack_diff(before, before.replace("line 20", "another"))
    assert [f"{sign} {text}" for sign, text in told.lines] == [
        "… 17 equal lines",
        "  line 17",
        "  line 18",
        "  line 19",
        "- line 20",
        "+ another",
        "  line 21",
        "  line 22",
        "  line 23",
        "… 16 equal lines",
    ]
    assert (told.equal, told.left) == (False, 0)


def test_long_stacks_are_compared_in_part() -> None:
    before = "\n".join(f"before {n}" for n in range(5_000))
    after = "\n".join(f"after {n}" for n in range(5_000))
    told = stack_diff(before, after)
    assert len(told.lines) == MAX_DIFF_LINES
    assert told.left == 2 * (5_000 - MAX_LINES) + 2 * MAX_LINES - MAX_DIFF_LINES
    assert len(stack_diff("a" * 100_000, "b").lines[0].text) < MAX_LINE_LENGTH + 30


def test_no_two_stacks_take_long() -> None:
    """Repeated lines are the slow case of such comparisons."""
    random = Random(1)
    for kinds in (1, 2, 8, 30, 300):
        words = [f"line {n}" for n in range(kinds)]
        one, other = ("\n".join(random.choices(words, k=10_000)) for _ in range(2))
        assert len(stack_diff(one, other).lines) <= MAX_DIFF_LINES


@given(st.lists(st.sampled_from("abc"), max_size=20), st.lists(st.sampled_from("abc"), max_size=20))
def test_the_difference_is_true(one: list[str], other: list[str]) -> None:
    """The removed and common lines add up to the first text; the added and common lines, to the second."""
    told = stack_diff("\n".join(one), "\n".join(other))
    removed = [line.text for line in told.lines if line.sign == "-"]
    added = [line.text for line in told.lines if line.sign == "+"]
    shared = [line.text for line in told.lines if line.sign == " "]
    hidden = sum(int(line.text.split()[0]) for line in told.lines if line.sign == "…")
    if not told.equal:
        lengths = (len("\n".join(one).split("\n")), len("\n".join(other).split("\n")))
        assert lengths == (
            len(removed) + len(shared) + hidden,
            len(added) + len(shared) + hidden,
        )
    assert told.equal is (one == other or "\n".join(one) == "\n".join(other))


# Choosing attempts


THREE = [ATTEMPT._replace(number=number) for number in (1, 2, 5)]


@pytest.mark.parametrize("given_", [["2,5"], ["5,2"], ["2", "5"], [" 5 , 2 "], ["5", "2", "5"]])
def test_two_are_chosen_in_any_spelling(given_: list[str]) -> None:
    assert pair_of(given_, THREE).numbers == (2, 5)


@pytest.mark.parametrize(
    ("given_", "problem"),
    [
        (["2"], "Select two attempts to compare. 1 selected."),
        (["1,2,5"], "Select two attempts to compare. 3 selected."),
        (["1,3"], "Can't compare: attempt 3 doesn't exist."),
        (["1,<script>"], "Can't compare: attempt <script> doesn't exist."),
        (["1,²"], "Can't compare: attempt ² doesn't exist."),
    ],
)
def test_the_page_says_what_cannot_be_compared(given_: list[str], problem: str) -> None:
    assert pair_of(given_, THREE).problem == problem
    assert pair_of(given_, THREE).numbers is None


def test_the_page_works_without_a_selection() -> None:
    assert pair_of(None, THREE) == (None, "")
    assert pair_of([], THREE) == (None, "")


def test_rows_come_newest_first_and_show_repetitions() -> None:
    attempts = [
        ATTEMPT,
        ATTEMPT._replace(number=2, message="no answer in 7 s"),
        ATTEMPT._replace(number=3, message="refused", replay=1),
    ]
    rows = attempt_rows(attempts)
    assert [(row.attempt.number, row.same) for row in rows] == [(3, False), (2, True), (1, False)]
    assert len(attempt_rows([ATTEMPT._replace(number=n) for n in range(80)])) == MAX_ROWS
