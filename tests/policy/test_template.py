"""Templates: named handling of common failures (M12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.cases import loop_over

from redrive.errors import InvalidValueError
from redrive.model.failure import Category
from redrive.policy.template import Circumstances, Template, template_for
from redrive.policy.triage import Triage, triage

WHAT = Circumstances(
    Category.PROVIDER_5XX,
    "charge",
    "checkout",
    "payments",
    "HttpStatusError",
    503,
    "Service Unavailable (bank)",
)


class TestMatching:
    @loop_over(
        "matcher",
        [
            {"category": "provider_5xx"},
            {"category": Category.PROVIDER_5XX},
            {"category": ("timeout", Category.PROVIDER_5XX)},
            {"task": "charge"},
            {"task": ["refund", "charge"]},
            {"workflow": "checkout"},
            {"queue": {"payments"}},
            {"error_type": "HttpStatusError"},
            {"http_status": 503},
            {"http_status": (502, 503)},
            {"message_contains": "unavailable"},
            {"message_contains": ("refused", "BANK")},
        ],
    )
    def test_one_value_or_one_of_several(self, matcher: dict[str, Any]) -> None:
        assert Template("known", **matcher).matches(WHAT)

    @pytest.mark.parametrize(
        "matcher",
        [
            {"category": "timeout"},
            {"task": "charg"},
            {"workflow": "Checkout"},
            {"queue": ["default", "mail"]},
            {"error_type": "Error"},
            {"http_status": 500},
            {"message_contains": "timed out"},
        ],
    )
    def test_failures_that_do_not_match(self, matcher: dict[str, Any]) -> None:
        assert not Template("known", **matcher).matches(WHAT)
        assert not Template("known", **({"task": "charge", "queue": "payments"} | matcher)).matches(WHAT)

    def test_all_that_are_given_must_fit(self) -> None:
        assert Template("known", task="charge", http_status=503, message_contains="bank").matches(WHAT)
        assert not Template("known", task="charge", http_status=504).matches(WHAT)

    @pytest.mark.parametrize(
        ("kind", "categories"),
        [
            ("transient", {Category.PROVIDER_5XX, Category.RATE_LIMIT, Category.CANCELLED}),
            ("network", {Category.TIMEOUT, Category.NETWORK}),
            ("Resource", {Category.RESOURCE}),
            (Triage.NETWORK, {Category.TIMEOUT, Category.NETWORK}),
            (Category.NETWORK, {Category.NETWORK}),
            (["timeout", "resource"], {Category.TIMEOUT, Category.RESOURCE}),
        ],
    )
    def test_a_coarse_kind_stands_for_its_categories(self, kind: Any, categories: set[Category]) -> None:
        """M4: the words of the stand-alone queue."""
        template = Template("known", category=kind)
        assert {each for each in Category if template.matches(WHAT._replace(category=each))} == categories
        assert replace(template, owner="ana").category == template.category

    def test_every_category_is_of_one_kind(self) -> None:
        kinds = [Template(kind, category=kind) for kind in Triage]
        for each in Category:
            matching = [template.name for template in kinds if template.matches(WHAT._replace(category=each))]
            assert matching == [triage(each)]

    def test_a_failure_without_a_status(self) -> None:
        assert not Template("known", http_status=503).matches(WHAT._replace(http_status=None))

    def test_the_first_match_wins(self) -> None:
        bank = Template("bank", message_contains="bank", redrive="linear")
        server = Template("server", category="provider_5xx", redrive="exponential")
        assert template_for([bank, server], WHAT) is bank
        assert template_for([server, bank], WHAT) is server
        assert template_for([bank, server], WHAT._replace(message="other")) is server
        assert template_for([Template("other", task="mail")], WHAT) is None
        assert template_for([], WHAT) is None


class TestChecks:
    def test_its_settings_are_kept(self) -> None:
        template = Template(
            "bank",
            task="charge",
            redrive="linear",
            max_redrives=5,
            tags=["bank", "urgent"],
            owner="payments team",
            runbook="https://runbooks.example/bank",
        )
        assert (template.redrive, template.max_redrives) == ("linear", 5)
        assert template.tags == ("bank", "urgent")
        assert (template.owner, template.runbook) == ("payments team", "https://runbooks.example/bank")

    def test_one_tag_is_a_tag(self) -> None:
        assert Template("bank", task="charge", tags="urgent").tags == ("urgent",)

    def test_a_template_without_conditions(self) -> None:
        with pytest.raises(InvalidValueError, match="'bank' has no matcher; set at least one of"):
            Template("bank", redrive="linear")

    @loop_over(
        ("wrong", "message"),
        [
            ({"category": "outage"}, "category must be one of 'transient'.* 'timeout'.* got 'outage'"),
            ({"category": None}, "category must be one of 'transient'.* got None"),
            ({"http_status": 99}, "http_status must be a whole number from 100 to 599, got 99"),
            ({"http_status": "503"}, "http_status must be a whole number"),
            ({"task": ""}, "task must be 1 to 500 printable characters"),
            ({"task": None}, "task must be of type str"),
            ({"message_contains": "a\x00b"}, "message_contains must be 1 to 500 printable"),
            ({"redrive": "sometimes"}, "a redrive policy must be never"),
            ({"max_redrives": -1}, "max_redrives must be a whole number from 0"),
            ({"tags": ["", "a"]}, "a tag must be 1 to 500"),
            ({"tags": [str(n) for n in range(51)]}, "at most 50 tags, got 51"),
            ({"owner": "x" * 501}, "owner must be 1 to 500"),
            ({"runbook": 7}, "runbook must be of type str"),
        ],
    )
    def test_an_invalid_template_is_rejected_at_once(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidValueError, match=message):
            Template("bank", **({"queue": "payments"} | wrong))

    @pytest.mark.parametrize("name", ["", "a\nb", None, "x" * 501])
    def test_the_name(self, name: Any) -> None:
        with pytest.raises(InvalidValueError, match="the name of a template must be"):
            Template(name, task="charge")
