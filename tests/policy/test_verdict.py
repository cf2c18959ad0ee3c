"""The verdict on a dead letter: why it stopped, what has changed since, what is likely to work."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cases import loop_over

from redrive.model.decision import Reason
from redrive.model.failure import Category, ErrorClass
from redrive.policy.verdict import BreakerFact, LetterFacts, ReplayCounts, verdict

NOW = 100_000.0
FAILED_AT = NOW - 3_600.0


def facts(**changes: Any) -> LetterFacts:
    """A timeout an hour ago, and nothing since."""
    made = LetterFacts(
        state="OPEN",
        now=NOW,
        failed_at=FAILED_AT,
        step="charge",
        reason=Reason.ATTEMPTS_SPENT,
        explanation="",
        category=Category.TIMEOUT,
        error_class=ErrorClass.RETRYABLE,
        error_type="TimeoutError",
        attempts=4,
        code_version="v7",
    )
    return made._replace(**changes)


def final(**changes: Any) -> LetterFacts:
    kind = {"category": Category.VALIDATION, "error_class": ErrorClass.FINAL, "error_type": "ValueError"}
    return facts(**kind, reason=Reason.FINAL_ERROR, attempts=1)._replace(**changes)


# Why


def test_it_says_why_it_stopped() -> None:
    assert verdict(facts()).why == (
        "It stopped after 4 attempts with TimeoutError (timeout): all attempts are used up."
    )
    assert verdict(final()).why == (
        "It stopped after 1 attempt with ValueError (validation): trying again cannot help."
    )


def test_a_reason_of_another_version_is_told_as_it_was_kept() -> None:
    assert verdict(facts(reason="moon", explanation="the moon was full")).why.endswith(": the moon was full.")
    assert verdict(facts(reason="moon", explanation="")).why.endswith(": no reason was kept.")


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
            "The breaker 'bank' is open: the dependency does not work at the moment; "
            "it is tried again in 40 s.",
        ),
        (
            {"breaker": BreakerFact("bank", "OPEN")},
            "The breaker 'bank' is open: the dependency does not work at the moment.",
        ),
        (
            {"breaker": BreakerFact("bank", "HALF_OPEN")},
            "The breaker 'bank' is finding out whether the dependency is back.",
        ),
        (
            {"breaker": BreakerFact("bank", "CLOSED", NOW - 180.0)},
            "The breaker 'bank' has closed 3 min ago: the dependency works again.",
        ),
        (
            {"versions": frozenset({"v8", "v7"})},
            "Another version of the code is at work: v8, it failed in v7.",
        ),
        (
            {"versions": frozenset({"v8"}), "code_version": ""},
            "Another version of the code is at work: v8.",
        ),
        (
            {"versions": frozenset({"v8"}), "failing": frozenset({"v7", "v8"})},
            "It fails in the same way in v8.",
        ),
        ({"succeeded": 1}, "The step 'charge' has succeeded once since."),
        ({"succeeded": 120}, "The step 'charge' has succeeded 120 times since."),
        ({"succeeded": 1_000}, "The step 'charge' has succeeded at least 1,000 times since."),
        ({"occurred": 7}, "The same failure has occurred 7 times elsewhere since."),
        ({"replays": ReplayCounts(0, 1)}, "This one: 1 replay so far, 0 succeeded, 1 failed."),
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
def test_every_change_is_told_in_a_sentence(change: dict[str, Any], sentence: str) -> None:
    assert verdict(facts(**change)).changed == (sentence,)


# What is likely to work

CLOSED_SINCE = BreakerFact("bank", "CLOSED", NOW - 60.0)
OPEN = BreakerFact("bank", "OPEN", open_until=NOW + 9.0)


@loop_over(
    ("case", "likely", "advice"),
    [
        (facts(), "unknown", "Replay one to see: such failures often pass"),
        (facts(succeeded=3), "likely", "Replay it: what it failed of has passed."),
        (facts(breaker=CLOSED_SINCE), "likely", "Replay it: what it failed of has passed."),
        (facts(breaker=OPEN, succeeded=3), "unlikely", "Wait until the breaker closes"),
        (facts(occurred=4, succeeded=3), "unlikely", "Wait, or find the cause: it is still happening."),
        (facts(occurred=3, succeeded=4), "likely", "Replay it"),
        (facts(waits_for=("letter 1",), succeeded=3), "unlikely", "See to letter 1 first."),
        (final(), "unlikely", "A replay would fail again"),
        (final(succeeded=3), "unlikely", "A replay would fail again"),
        (final(versions=frozenset({"v8"})), "unknown", "Replay one to see: the code was changed"),
        (
            final(versions=frozenset({"v8"}), succeeded=2, succeeded_in=frozenset({"v8"})),
            "likely",
            "Replay it: the step works in another version of the code.",
        ),
        (
            final(versions=frozenset({"v8"}), failing=frozenset({"v8"})),
            "unlikely",
            "A replay would fail again",
        ),
        (final(other_replays=ReplayCounts(3, 2)), "likely", "Replay it: most replays"),
        (facts(other_replays=ReplayCounts(2, 3)), "unlikely", "Find the cause first: most replays"),
        (final(other_replays=ReplayCounts(1, 0)), "likely", "Replay it: the only replay of the same"),
        (facts(other_replays=ReplayCounts(2, 3), succeeded=1), "likely", "Replay it: what it failed of"),
        (facts(replays=ReplayCounts(0, 1)), "unlikely", "Find the cause first: it has failed in a replay"),
        (facts(replays=ReplayCounts(0, 1), breaker=CLOSED_SINCE), "likely", "Replay it"),
        (facts(state="REPLAYING"), "unknown", "It is being replayed: wait for the outcome."),
        (facts(state="RESOLVED"), "unknown", "It is resolved: there is nothing to do."),
        (facts(state="ARCHIVED"), "unknown", "It is archived: there is nothing to do."),
    ],
)
def test_what_is_likely_follows_from_what_is_known(case: LetterFacts, likely: str, advice: str) -> None:
    found = verdict(case)
    assert found.likely == likely
    assert found.advice.startswith(advice)


# What comes by itself, and what to beware of


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"next_redrive_at": NOW + 240.0}, "It is replayed automatically in 4 min."),
        (
            {"next_redrive_at": NOW + 7_200.0, "redrives": 1, "max_redrives": 3},
            "It is replayed automatically in 2 h (2 of 3).",
        ),
        ({"next_redrive_at": NOW - 1.0}, "It is replayed automatically as soon as the processor gets to it."),
    ],
)
def test_what_is_redriven_automatically_heals_itself(change: dict[str, Any], sentence: str) -> None:
    found = verdict(facts(**change))
    assert found.heals_itself
    assert found.advice.endswith(sentence)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"next_redrive_at": NOW + 1.0, "waits_for": ("letter 1",)},
        {"next_redrive_at": NOW + 1.0, "state": "EXHAUSTED", "redrives": 3},
        {"next_redrive_at": NOW + 1.0, "state": "RESOLVED"},
    ],
)
def test_everything_else_needs_somebody(change: dict[str, Any]) -> None:
    found = verdict(facts(**change))
    assert not found.heals_itself
    assert "automatically" not in found.advice


def test_what_is_being_replayed_needs_nobody() -> None:
    assert verdict(facts(state="REPLAYING")).heals_itself


def test_what_is_exhausted_says_that_nothing_more_comes_by_itself() -> None:
    advice = verdict(facts(state="EXHAUSTED", redrives=3)).advice
    assert advice.endswith("Its 3 automatic replays did not help; there will be no further one.")


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
    assert ("Careful: it may have taken effect already" in verdict(facts(**change)).advice) is warned
