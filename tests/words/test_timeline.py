"""The timeline of a run."""

from __future__ import annotations

from tests.cases import loop_over

from redrive.model.fact import Fact, fact
from redrive.words.fact import text_of


@loop_over(
    ("event", "text"),
    [
        (fact("run_ended", state="DLQ_PENDING"), "dead letter"),
        (fact("run_ended", state="SUCCESS"), "succeeded"),
        (fact("held", holder="breaker:bank"), "by the breaker 'bank'"),
        (
            fact("replay_started", by="ana", mode="FROM_STEP", reason="gateway back"),
            "by ana, from the failed step to the end: gateway back",
        ),
        (fact("replay_started", by="ana", mode="STEP_ONLY", reason=""), "by ana, the failed step only"),
    ],
)
def test_an_event_has_words_and_no_names_of_the_api(event: Fact, text: str) -> None:
    assert text_of(event) == text
