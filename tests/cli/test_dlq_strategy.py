"""`redrive dlq strategy`: which failures become dead letters, shown and changed."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.conftest import Command
from tests.cli.served import Served
from tests.cli.shop import Shop


def listed(redrive: Command) -> list[tuple[Any, ...]]:
    items = json.loads(redrive("dlq", "strategy", "-o", "json").out)
    return [(item["queue"], item["strategy"], item["reason"]) for item in items]


def test_shown_changed_and_removed(anywhere: Command, shop: Shop) -> None:
    assert listed(anywhere) == [(None, "automatic", None)]
    changed = anywhere("dlq", "strategy", "selective", "--reason", "noise")
    assert changed == (
        0,
        "",
        "All queues without a strategy of their own now have the strategy 'selective'.\n",
    )
    assert listed(anywhere) == [(None, "selective", "noise")]
    anywhere("dlq", "strategy", "manual", "--queue", "default")
    assert listed(anywhere) == [(None, "selective", "noise"), ("default", "manual", None)]
    reset = anywhere("dlq", "strategy", "default", "--queue", "default")
    assert reset == (0, "", "Queue 'default' now has the strategy 'selective'.\n")
    assert listed(anywhere) == [(None, "selective", "noise")]


def test_a_table_for_people(redrive: Command, shop: Shop) -> None:
    shop.order(wait=False)
    redrive("dlq", "strategy", "manual", "--queue", "default")
    heading, everywhere, queue = redrive("dlq", "strategy", "-o", "table").out.splitlines()
    assert heading.split() == ["QUEUE", "STRATEGY", "CHANGED", "BY", "CHANGED", "REASON"]
    assert everywhere.split() == ["all", "others", "automatic", "the", "settings", "-", "-"]
    assert queue.split()[:2] == ["default", "manual"]


def test_a_dry_run_and_mistakes_change_nothing(redrive: Command, shop: Shop) -> None:
    shop.order(wait=False)
    dry = redrive("dlq", "strategy", "disabled", "--dry-run")
    assert (dry.code, "Would change the strategy of all queues" in dry.err) == (0, True)
    assert redrive("dlq", "strategy", "some").code == 2
    assert redrive("dlq", "strategy", "manual", "--queue", "defualt").code == 3
    assert redrive("dlq", "strategy", "--queue", "default").code == 2
    assert listed(redrive) == [(None, "automatic", None)]


def test_who_may(served: Served, redrive: Command, shop: Shop) -> None:
    served.enter("ADMIN")
    assert redrive("dlq", "strategy").code == 0
    assert redrive("dlq", "strategy", "manual").code == 5
