"""What the checker reads out of texts is what the engine writes into them."""

from __future__ import annotations

from redrive.model.decision import Explanation, Reason
from redrive.store.statement import statement


def test_a_wait_that_a_server_has_asked_for_is_recognised_by_its_explanation() -> None:
    said = str(Explanation(Reason.RATE_LIMIT_HINT, rule="http.429", category="rate_limit", hint=2.0))
    assert "; the server asked for 2 s" in said
    assert "LIKE '%; the server asked for %'" in statement("verification", "waits").sqlite.text
