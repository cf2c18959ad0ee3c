"""The history of a dead letter in words."""

from __future__ import annotations

from typing import Any

from tests.cases import loop_over

from redrive.words.history import describe_action, describe_closing, describe_replay


@loop_over(
    ("action", "detail", "what", "text"),
    [
        ("dead_letter.resolved", {"reason": "paid by hand"}, "resolved it", "paid by hand"),
        ("dead_letter.reopened", {}, "reopened it", ""),
        ("dead_letter.assigned", {"assignee": "ada"}, "assigned it to ada", ""),
        ("dead_letter.assigned", {"assignee": None}, "unassigned it", ""),
        ("dead_letter.tagged", {"added": ["a", "b"], "removed": ["c"]}, "tagged it", "+a +b −c"),
        ("dead_letter.tagged", {"added": "damaged"}, "tagged it", ""),
        ("dead_letter.linked", {"depends_on": ["01"]}, "made it depend on 01", ""),
        ("dead_letter.linked", {"no_longer_depends_on": "01"}, "removed its dependency on 01", ""),
        ("some_new.action", {"reason": "why"}, "some new: action", "why"),
    ],
)
def test_an_action(action: str, detail: dict[str, Any], what: str, text: str) -> None:
    assert describe_action(action, detail, "ana") == (what, text)


def test_redrive_itself_closes_and_reopens_a_dead_letter_because_of_a_replay() -> None:
    resolved, reopened = "dead_letter.resolved", "dead_letter.reopened"
    assert describe_action(resolved, {}, "redrive").what == "resolved it, because its step succeeded"
    assert describe_action(reopened, {}, "redrive").what == "reopened it, because its run failed again"


@loop_over(
    ("state", "by", "resolution", "what", "text"),
    [
        ("RESOLVED", "ana", "replayed", "Resolved when ana replayed it", ""),
        ("RESOLVED", "redrive", "replayed", "Resolved by an automatic replay", ""),
        ("RESOLVED", "ana", "paid by hand", "Resolved by ana", "paid by hand"),
        ("IGNORED", None, None, "Ignored", ""),
    ],
)
def test_how_a_dead_letter_was_closed(
    state: str, by: str | None, resolution: str | None, what: str, text: str
) -> None:
    assert describe_closing(state, by, resolution) == (what, text)


def test_a_replay() -> None:
    plain = describe_replay("FROM_STEP", "RUNNING", automatic=False, changed=(), reason=None, note=None)
    assert plain == ("replayed it", "")
    planned = describe_replay("FROM_STEP", "PLANNED", automatic=False, changed=(), reason="fixed", note="")
    assert planned == ("planned a replay", "fixed")
    cancelled = describe_replay(
        "STEP_ONLY", "CANCELLED", automatic=False, changed=(), reason=None, note=None, started=False
    )
    assert cancelled == ("planned a replay of the failed step only", "")
    refused = describe_replay("FROM_STEP", "REFUSED", automatic=True, changed=(), reason=None, note=None)
    assert refused == ("planned a replay automatically", "")
    full = describe_replay(
        "STEP_ONLY",
        "SUCCEEDED",
        automatic=False,
        changed=["address.country", "note"],
        reason="fixed",
        note="it succeeded",
    )
    assert full == (
        "replayed the failed step only with an edited payload (address.country, note)",
        "fixed. It succeeded",
    )


def test_the_text_of_an_automatic_replay_is_its_result() -> None:
    failed = describe_replay(
        "FROM_STEP",
        "FAILED",
        automatic=True,
        changed=(),
        reason="redriven automatically",
        note="failed again",
    )
    assert failed == ("replayed it automatically", "Failed again")
