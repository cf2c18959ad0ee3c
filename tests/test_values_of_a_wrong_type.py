"""A value of a wrong type is rejected at once, with a message that names the value and the allowed types."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable
from typing import Any

import pytest

from redrive import Backoff, DeadLetterQueue, Redrive, RetryPolicy, Settings, dependency
from redrive.errors import InvalidValueError
from redrive.policy import Classifier, Exponential, Rule

URL = "sqlite://:memory:"


def new_app(**options: Any) -> Redrive:
    app = Redrive(URL, log=False, **options)
    app.task(charge)
    return app


async def charge(order: object) -> None: ...


async def execute(task: object) -> None: ...


def queue(**options: Any) -> DeadLetterQueue:
    return DeadLetterQueue(URL, execute, log=False, **options)


def retries(**options: Any) -> RetryPolicy:
    return RetryPolicy(max_attempts=3, backoff=Backoff(Exponential(1.0)), **options)


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    # A single value in place of a list
    "queues of an application": (
        lambda app: new_app(queues="mail"),
        r"queues must be a list of names, got 'mail'. For a single one, pass \['mail'\]",
    ),
    "queues, no list": (lambda app: new_app(queues=5), "queues must be a list of names, got 5"),
    "queues of a worker": (
        lambda app: app.worker(queues="default"),
        r"queues must be a list of names, got 'default'. For a single one, pass \['default'\]",
    ),
    "workflows of a worker": (
        lambda app: app.worker(workflows="charge"),
        r"workflows must be a list of names, got 'charge'. For a single one, pass \['charge'\]",
    ),
    "aliases of a task": (
        lambda app: app.task(name="other", aliases="old")(charge),
        r"aliases must be a list of names, got 'old'. For a single one, pass \['old'\]",
    ),
    "aliases of a workflow": (
        lambda app: app.workflow("flow", [], aliases="old"),
        r"aliases must be a list of names, got 'old'",
    ),
    "a task as the steps": (
        lambda app: app.workflow("flow", app.task(name="other")(charge)),
        "steps must be a list of tasks, got ",
    ),
    "a name as the steps": (
        lambda app: app.workflow("flow", "charge"),
        "steps must be a list of tasks, got 'charge'",
    ),
    "tags": (
        lambda app: app.start("charge", 1, tags="vip"),
        r"tags must be a list of words, got 'vip'. For a single one, pass \['vip'\]",
    ),
    "payloads": (
        lambda app: app.start_many("charge", "order"),
        r"payloads must be a list of payloads, got 'order'. For a single one, pass \['order'\]",
    ),
    "payloads, no list": (
        lambda app: app.start_many("charge", 5),
        "payloads must be a list of payloads, got 5",
    ),
    "payloads, bytes": (
        lambda app: app.start_many("charge", b"ab"),
        "payloads must be a list of payloads, got b'ab'",
    ),
    "payloads, one mapping": (
        lambda app: app.start_many("charge", {"order": 7}),
        "payloads must be a list of payloads, got {'order': 7}",
    ),
    "keys": (
        lambda app: app.start_many("charge", [1], keys="k"),
        r"keys must be a list of keys, got 'k'. For a single one, pass \['k'\]",
    ),
    "after": (
        lambda app: queue().enqueue("b", 1, error="x", after="order-7"),
        r"after must be a list of task ids, got 'order-7'. For a single one, pass \['order-7'\]",
    ),
    "added tags": (
        lambda app: app.failures().tag("x", add="vip"),
        r"add must be a list of words, got 'vip'. For a single one, pass \['vip'\]",
    ),
    "ids": (
        lambda app: app.failures().plans.create(ids="abc"),
        r"ids must be a list of dead-letter ids, got 'abc'. For a single one, pass \['abc'\]",
    ),
    "also_retry": (
        lambda app: retries(also_retry="timeout"),
        r"also_retry must be a list of categories, got 'timeout'. For a single one, pass \['timeout'\]",
    ),
    "never_retry": (
        lambda app: retries(never_retry=["tiemout"]),
        "never_retry must be one of .*'timeout'.*, got 'tiemout'",
    ),
    "rules": (lambda app: Classifier(5), "rules must be a list of rules, got 5"),  # type: ignore[arg-type]
    "one rule": (
        lambda app: Classifier(Rule.for_type(KeyError, "timeout")),  # type: ignore[arg-type]
        "rules must be a list of rules, got ",
    ),
    "templates": (lambda app: queue(templates=5), "templates must be a list of templates, got 5"),
    # Another type
    "policy of a breaker": (
        lambda app: app.breaker("bank", 5),
        "policy must be of type BreakerPolicy, got 5",
    ),
    "retry policy for a breaker": (
        lambda app: app.breaker("bank", retries()),
        r"policy must be of type BreakerPolicy, got RetryPolicy\(",
    ),
    "ramp": (lambda app: app.breaker("bank", ramp=5), "ramp must be of type Ramp, got 5"),
    "probe": (lambda app: app.breaker("bank", probe=5), "probe must be a function, got 5"),
    "listener": (lambda app: app.listen(5), "listener must be a function, got 5"),
    "task of a run": (lambda app: app.run("x", task="charge"), "task must be of type Task, got 'charge'"),
    "url": (lambda app: Redrive(5, log=False), "the database URL must be a string, got int"),  # type: ignore[arg-type]
    "url with a password": (
        lambda app: Redrive(Settings(database_url="postgresql://a:secret@b/c"), log=False),  # type: ignore[arg-type]
        "the database URL must be a string, got Settings$",
    ),
    "settings": (
        lambda app: new_app(settings={"database_url": "postgresql://a:secret@b/c"}),
        "settings must be of type Settings, got dict$",
    ),
    "settings of a queue": (lambda app: queue(settings=5), "settings must be of type Settings, got int$"),
    "redrive": (lambda app: app.worker(redrive="no"), "redrive must be of type bool, got 'no'"),
    "durable": (lambda app: new_app(durable="no"), "durable must be of type bool, got 'no'"),
    "policies": (lambda app: queue(policies="slow"), "policies must be of type Mapping, got 'slow'"),
    "dependency": (lambda app: dependency(5), "the name of a dependency must be of type str, got 5"),  # type: ignore[arg-type]
    "backoff_by_category": (
        lambda app: retries(backoff_by_category={"timeout": 5}),
        "backoff_by_category must be of type Backoff, got 5",
    ),
}


@pytest.mark.parametrize("case", WRONG)
async def test_it_is_rejected_at_once(case: str) -> None:
    give, message = WRONG[case]
    app = new_app()
    with pytest.raises(InvalidValueError, match=message):
        given = give(app)
        if isawaitable(given):
            await given


async def test_every_kind_of_list_is_accepted() -> None:
    names = ("mail", "mail2")
    for queues in (names, list(names), set(names), dict.fromkeys(names).keys(), (name for name in names)):
        app = new_app(queues=queues)
        worker = app.worker(queues=names)
        assert worker.options.queues == names
    async with app:
        assert len(await app.start_many("charge", (number for number in range(3)))) == 3
        assert len(await app.start_many("charge", range(2), keys=(key for key in names))) == 2
    assert retries(also_retry=["timeout"]) == retries(also_retry=frozenset({"timeout"}))
