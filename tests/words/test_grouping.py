"""Why failures belong to one group."""

from __future__ import annotations

from tests.cases import loop_over

from redrive.model.fact import Fact, fact, read_fact
from redrive.words.fact import text_of, to_json


@loop_over(
    ("reason", "text"),
    [
        (fact("same_key", key="disk full"), "the same key: disk full"),
        (
            fact("same_call_path", calls=["shop.pay", "shop.run"], type="ValueError", step="charge"),
            "the same call path: shop.pay, called by shop.run; type ValueError, step charge",
        ),
        (fact("same_call_path", calls=["shop.pay"]), "the same call path: shop.pay"),
        (
            fact("same_message", step="charge", status="503"),
            "the same message, ignoring numbers, ids and quoted values; step charge, status 503",
        ),
    ],
)
def test_a_reason_names_the_common_properties_of_the_failures(reason: Fact, text: str) -> None:
    assert text_of(read_fact(reason.encode())) == text


def test_a_text_of_the_version_before_is_shown_as_it_is() -> None:
    stored = "the same call path: shop.pay; type ValueError, step charge"
    assert to_json(read_fact(stored)) == {"code": "sentence", "text": stored}
