"""The query language for runs: the same grammar as for dead letters, with its own keys and words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.model.query import Ago, Between, Term, Value
from redrive.model.run import ENDED_RUNS, FAILED_RUNS, LIVE_RUNS, RunPosition, RunState
from redrive.policy.query import parse
from redrive.policy.query_language import RUN_WORDS, RUNS

G_WORDS = ("idle", "queued", "running", "done", "retry_wait", "blocked", "dlq", "replaying")
M_WORDS = ("pending", "retrying", "exhausted", "completed")


def only(text: str) -> Term:
    [term] = parse(text, RUNS).terms
    return term


@loop_over(
    ("text", "values"),
    [
        ("is:PENDING", (RunState.PENDING,)),
        ("is:dlq_pending", (RunState.DLQ_PENDING,)),
        ("is:live", LIVE_RUNS),
        ("is:ended", ENDED_RUNS),
        ("is:failed", FAILED_RUNS),
        ("is:any", tuple(RunState)),
        ("is:idle,queued", (RunState.PENDING,)),
        ("is:done", (RunState.SUCCESS,)),
        ("is:retry_wait,retrying", (RunPosition.RETRYING,)),
        ("is:blocked,held", (RunPosition.BLOCKED, RunPosition.HELD)),
        ("is:dlq", (RunState.DLQ_PENDING,)),
        ("key:order-7", ("order-7",)),
        ("priority:>3", (Between(4, None),)),
        ("since:2h", (Ago(7_200),)),
    ],
)
def test_the_meaning_of_a_term(text: str, values: tuple[Value, ...]) -> None:
    assert only(text).values == values


def test_the_words_of_the_documents_are_taken() -> None:
    """The glossary: filters accept the external words of G and M as aliases."""
    assert set(G_WORDS + M_WORDS) <= set(RUN_WORDS)
    assert {state.lower() for state in RunState} <= set(RUN_WORDS)


@loop_over("key", RUNS.readers)
def test_every_key_can_be_mistyped(key: str) -> None:
    with pytest.raises(InvalidValueError, match=f"unknown key '{key}q' at position 1"):
        parse(f"{key}q:1", RUNS)


@pytest.mark.parametrize("text", ["checkout", '"two words"', "-x", "is:live checkout"])
def test_text_without_a_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="runs cannot be searched by text; put a key before it: is, "):
        parse(text, RUNS)


@given(st.lists(st.sampled_from(sorted(RUN_WORDS)), min_size=1, max_size=4), st.booleans())
def test_the_canonical_text_has_the_same_meaning(words: list[str], negated: bool) -> None:
    term = only(f"{'-' * negated}is:{','.join(words)}")

    again = only(str(term))

    assert (set(again.values), again.negated) == (set(term.values), negated)
    assert str(again) == str(only(str(again)))


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        query = parse(text, RUNS)
    except InvalidValueError:
        return
    assert str(parse(str(query), RUNS)) == str(query)
