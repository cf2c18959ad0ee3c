"""The verdict on a dead letter: why it stopped, what has changed since, what is likely to help."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cases import loop_over

from redrive.model.decision import DecisionFacts, Reason
from redrive.model.failure import Category, ErrorClass
from redrive.policy.verdict import BreakerFact, LetterFacts, ReplayCounts, verdict
from redrive.words.fact import paragraph, text_of

NOW = 100_000.0
FAILED_AT = NOW - 3_600.0


def facts(**changes: Any) -> LetterFacts:
    """The facts of a timeout an hour ago, with changes."""
    made = LetterFacts(
        state="OPEN",
        now=NOW,
        failed_at=FAILED_AT,
        step="charge",
        decision=DecisionFacts(Reason.ATTEMPTS_SPENT, max_attempts=4),
        category=Category.TIMEOUT,
        error_class=ErrorClass.RETRYABLE,
        error_type="TimeoutError",
        attempts=4,
        code_version="v7",
    )
    return made._replace(**changes)


def final(**changes: Any) -> LetterFacts:
    kind = {"category": Category.VALIDATION, "error_class": ErrorClass.FINAL, "error_type": "ValueError"}
    return facts(**kind, decision=DecisionFacts(Reason.FINAL_ERROR), attempts=1)._replace(**changes)


# Why


def test_it_says_why_it_stopped() -> None:
    assert text_of(verdict(facts()).why) == (
        "It stopped after 4 attempts with TimeoutError (timeout): all 4 attempts are used up."
    )
    assert text_of(verdict(final()).why) == (
        "It stopped after 1 attempt with ValueError (validation): a retry won't help."
    )


def test_an_unknown_error_says_how_to_make_it_retryable() -> None:
    why = text_of(verdict(facts(decision=DecisionFacts(Reason.UNKNOWN_ERROR))).why)
    assert "raise RetryableError, or give the task a classifier" in why


def test_a_sentence_of_an_earlier_version_is_shown_unchanged() -> None:
    moon = DecisionFacts("moon", text="the moon was full")
    assert text_of(verdict(facts(decision=moon)).why).endswith(": the moon was full.")
    assert text_of(verdict(facts(decision=DecisionFacts("full_moon"))).why).endswith(": full moon.")
    assert text_of(verdict(facts(decision=DecisionFacts(""))).why).endswith(": no reason was stored.")


# What has changed


def test_nothing_has_changed_unless_something_has() -> None:
    assert verdict(facts()).changed == ()
    same = facts(
        breaker=BreakerFact("bank", "CLOSED", FAILED_AT - 1.0),
        versions=frozenset({"v7", "unversioned", ""}),
        failing=frozenset({"v7"}),
    )
    assert verdict(same).changed == ()


@loop_over(
    ("change", "sentence"),
    [
        (
            {"breaker": BreakerFact("bank", "OPEN", open_until=NOW + 40.0)},
            "The breaker 'bank' is open: the dependency is failing. The next probe is in 40 s.",
        ),
        (
            {"breaker": BreakerFact("bank", "OPEN")},
            "The breaker 'bank' is open: the dependency is failing.",
        ),
        (
            {"breaker": BreakerFact("bank", "HALF_OPEN")},
            "The breaker 'bank' is probing: the next calls show whether it works again.",
        ),
        (
            {"breaker": BreakerFact("bank", "HALF_OPEN", NOW - 180.0, idle=True)},
            "The breaker 'bank' is half-open, and nothing waits for it: the next run, such as a replay, "
            "tries the dependency.",
        ),
        (
            {"breaker": BreakerFact("bank", "CLOSED", NOW - 180.0)},
            "The breaker 'bank' closed 3 min ago: the dependency works again.",
        ),
        (
            {"versions": frozenset({"v8", "v7"})},
            "Workers now run another version of the code: v8. It failed in v7.",
        ),
        (
            {"versions": frozenset({"v8"}), "code_version": ""},
            "Workers now run another version of the code: v8.",
        ),
        (
            {"versions": frozenset({"v8"}), "failing": frozenset({"v7", "v8"})},
            "It still fails the same way in v8.",
        ),
        ({"succeeded": 1}, "The step 'charge' has succeeded once since."),
        ({"succeeded": 120}, "The step 'charge' has succeeded 120 times since."),
        ({"succeeded": 1_000}, "The step 'charge' has succeeded at least 1,000 times since."),
        ({"occurred": 7}, "The same failure has occurred 7 times elsewhere since."),
        ({"replays": ReplayCounts(0, 1)}, "This dead letter: 1 replay so far, 0 succeeded, 1 failed."),
        (
            {"other_replays": ReplayCounts(10, 2)},
            "Others with the same failure: 12 replays so far, 10 succeeded, 2 failed.",
        ),
        (
            {"other_replays": ReplayCounts(1_000, 7)},
            "Others with the same failure: at least 1,007 replays so far, 1,000 succeeded, 7 failed.",
        ),
        ({"waits_for": ("a", "b", "c", "d", "e")}, "It waits for a, b, c and 2 more, not resolved yet."),
    ],
)
def test_every_change_has_a_sentence(change: dict[str, Any], sentence: str) -> None:
    assert [text_of(change) for change in verdict(facts(**change)).changed] == [sentence]


# What is likely to help

CLOSED_SINCE = BreakerFact("bank", "CLOSED", NOW - 60.0)
OPEN = BreakerFact("bank", "OPEN", open_until=NOW + 9.0)
PROBING = BreakerFact("bank", "HALF_OPEN")
IDLE = BreakerFact("bank", "HALF_OPEN", closed_at=NOW - 60.0, idle=True)


@loop_over(
    ("case", "likely", "advice"),
    [
        (facts(), "unknown", "Replay one to find out: failures like this"),
        (facts(succeeded=3), "likely", "Replay it: the cause of the failure has passed."),
        (facts(breaker=CLOSED_SINCE), "likely", "Replay it: the cause of the failure has passed."),
        (facts(breaker=OPEN, succeeded=3), "unlikely", "Wait until the breaker 'bank' closes"),
        (facts(breaker=PROBING, succeeded=3), "unlikely", "Wait until the breaker 'bank' closes"),
        (facts(breaker=IDLE), "unknown", "Replay one to find out: failures like this"),
        (
            facts(occurred=4, succeeded=3),
            "unlikely",
            "Wait, or find the cause: the failure is still occurring.",
        ),
        (facts(occurred=3, succeeded=4), "likely", "Replay it"),
        (facts(waits_for=("letter 1",), succeeded=3), "unlikely", "Resolve letter 1 first."),
        (final(), "unlikely", "A replay will fail again"),
        (final(succeeded=3), "unlikely", "A replay will fail again"),
        (final(versions=frozenset({"v8"})), "unknown", "Replay one to find out: the code has changed"),
        (
            final(versions=frozenset({"v8"}), succeeded=2, succeeded_in=frozenset({"v8"})),
            "likely",
            "Replay it: the step works in another version of the code.",
        ),
        (
            final(versions=frozenset({"v8"}), failing=frozenset({"v8"})),
            "unlikely",
            "A replay will fail again",
        ),
        (final(other_replays=ReplayCounts(3, 2)), "likely", "Replay it: most replays"),
        (facts(other_replays=ReplayCounts(2, 3)), "unlikely", "Find the cause first: most replays"),
        (final(other_replays=ReplayCounts(1, 0)), "likely", "Replay it: the only replay of this"),
        (
            facts(other_replays=ReplayCounts(2, 3), succeeded=1),
            "likely",
            "Replay it: the cause of the failure",
        ),
        (facts(replays=ReplayCounts(0, 1)), "unlikely", "Find the cause first: a replay has already failed"),
        (facts(replays=ReplayCounts(0, 1), breaker=CLOSED_SINCE), "likely", "Replay it"),
        (facts(state="REPLAYING"), "unknown", "A replay is running. Wait for its outcome."),
        (facts(state="RESOLVED"), "unknown", "It is resolved. There is nothing to do."),
        (facts(state="ARCHIVED"), "unknown", "It is archived. There is nothing to do."),
    ],
)
def test_the_likely_outcome_follows_from_the_facts(case: LetterFacts, likely: str, advice: str) -> None:
    found = verdict(case)
    assert found.likely == likely
    assert paragraph(found.advice).startswith(advice)


# What happens automatically, and warnings


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"next_redrive_at": NOW + 240.0}, "Redrive will replay it automatically in 4 min."),
        (
            {"next_redrive_at": NOW + 7_200.0, "redrives": 1, "max_redrives": 3},
            "Redrive will replay it automatically in 2 h (2 of 3).",
        ),
        ({"next_redrive_at": NOW - 1.0}, "Redrive will replay it automatically as soon as a worker is free."),
    ],
)
def test_a_letter_that_is_redriven_automatically_heals_itself(change: dict[str, Any], sentence: str) -> None:
    found = verdict(facts(**change))
    assert found.heals_itself
    assert paragraph(found.advice).endswith(sentence)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"next_redrive_at": NOW + 1.0, "waits_for": ("letter 1",)},
        {"next_redrive_at": NOW + 1.0, "state": "EXHAUSTED", "redrives": 3},
        {"next_redrive_at": NOW + 1.0, "state": "RESOLVED"},
    ],
)
def test_everything_else_needs_you(change: dict[str, Any]) -> None:
    found = verdict(facts(**change))
    assert not found.heals_itself
    assert "automatically" not in paragraph(found.advice)


def test_letters_that_are_being_replayed_do_not_need_you() -> None:
    assert verdict(facts(state="REPLAYING")).heals_itself


def test_an_exhausted_letter_has_no_automatic_redrive_left() -> None:
    advice = paragraph(verdict(facts(state="EXHAUSTED", redrives=3)).advice)
    assert advice.endswith("3 automatic replays did not help, and there will be no more.")


@pytest.mark.parametrize(
    ("change", "warned"),
    [
        ({"effect": "unsafe"}, True),
        ({"effect": "unsafe", "state": "EXHAUSTED"}, True),
        ({"effect": "unsafe", "may_have_executed": False}, False),
        ({"effect": "idempotent"}, False),
        ({"effect": "none"}, False),
        ({"effect": "unsafe", "state": "RESOLVED"}, False),
    ],
)
def test_an_effect_that_may_be_repeated_is_warned_of(change: dict[str, Any], warned: bool) -> None:
    assert (
        "Careful: the step may have taken effect already" in paragraph(verdict(facts(**change)).advice)
    ) is warned


def test_a_payload_that_does_not_fit_is_named() -> None:
    advice = verdict(final(error_type="redrive.errors.PayloadError")).advice
    assert [fact.code for fact in advice] == ["payload_mismatch"]
