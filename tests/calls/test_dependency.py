"""A name means one dependency everywhere in the process, whenever the program configures it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.calls.script import Script

from redrive import Backoff, BreakerPolicy, Guard, call, dependency
from redrive.calls import Dependency
from redrive.calls.dependency import DEPENDENCIES, Dependencies
from redrive.errors import BreakerOpenError, InvalidValueError
from redrive.model.breaker import BreakerState
from redrive.policy import BudgetPolicy, Immediate
from redrive.policy.classify import DEFAULT_CLASSIFIER

AT_ONCE = Backoff(Immediate())
TOUCHY = BreakerPolicy(window_calls=1, minimum_calls=1)


def guard(name: str) -> Guard:
    return Guard("work", max_attempts=1, dependency=name)


def fail(by: Guard) -> None:
    with pytest.raises(ConnectionError):
        by.call(Script(ConnectionError()))


class TestName:
    def test_configured_before_the_guards(self) -> None:
        dependency("shop", breaker=TOUCHY)
        fail(guard("shop"))
        with pytest.raises(BreakerOpenError):
            guard("shop").call(Script("never"))

    def test_configured_after_the_guards(self) -> None:
        early = guard("shop")
        dependency("shop", breaker=TOUCHY)
        fail(early)
        with pytest.raises(BreakerOpenError):
            early.call(Script("never"))
        with pytest.raises(BreakerOpenError):
            guard("shop").call(Script("never"))

    def test_configured_after_it_was_used(self) -> None:
        """With a new policy, the breaker starts from scratch."""
        early = guard("shop")
        for _ in range(4):
            fail(early)
        shop = dependency("shop", breaker=BreakerPolicy(window_calls=10, minimum_calls=10))
        assert shop.snapshot().calls == 0
        assert early.call(Script("called")) == "called"

    def test_configured_while_a_call_is_in_progress(self) -> None:
        early = guard("shop")

        def work(attempt: object) -> str:
            dependency("shop", breaker=TOUCHY)
            return "done"

        assert early.call(work) == "done"

    def test_two_guards_share_breaker_and_budget(self) -> None:
        dependency("shop", breaker=TOUCHY)
        fail(Guard("one", max_attempts=1, dependency="shop"))
        with pytest.raises(BreakerOpenError):
            Guard("two", dependency="shop").call(Script("never"))

    def test_other_names_are_not_touched(self) -> None:
        dependency("shop", breaker=TOUCHY)
        dependency("bank", breaker=TOUCHY)
        fail(guard("shop"))
        assert guard("bank").call(Script("called")) == "called"

    def test_configuring_it_identically_again_changes_nothing(self) -> None:
        shop = dependency("shop", breaker=TOUCHY)
        fail(Guard("work", max_attempts=1, dependency="shop"))
        assert dependency("shop", breaker=TOUCHY) is shop
        assert shop.snapshot().state == "OPEN"

    def test_other_settings_for_the_same_name_are_refused(self) -> None:
        dependency("shop")
        with pytest.raises(InvalidValueError, match="'shop' already has other settings"):
            dependency("shop", breaker=TOUCHY)

    def test_a_dependency_may_be_passed_itself(self) -> None:
        shop = dependency("shop", breaker=TOUCHY)
        fail(Guard("work", max_attempts=1, dependency=shop))
        with pytest.raises(BreakerOpenError):
            guard("shop").call(Script("never"))

    def test_a_dependency_created_directly_is_not_shared(self) -> None:
        own = Dependency("shop", breaker=TOUCHY)
        fail(Guard("work", max_attempts=1, dependency=own))
        assert own.snapshot().state is BreakerState.OPEN
        assert guard("shop").call(Script("called")) == "called"

    def test_budget_and_breaker_are_both_configured(self) -> None:
        shop = dependency("shop", budget=BudgetPolicy(capacity=7.0))
        assert shop.retry_tokens == 7.0
        assert shop.name == "shop"


class TestRegistry:
    def test_a_name_found_twice_at_once_is_one(self) -> None:
        """Two threads use a new name: one configures it, the other only looks it up."""
        registry = Dependencies()
        configured = registry.configure("shop", TOUCHY, None, DEFAULT_CLASSIFIER)
        assert registry._make("shop", registry._others) is configured

    def test_threads_asking_for_a_new_name_get_the_same(self) -> None:
        registry = Dependencies()
        with ThreadPoolExecutor(8) as pool:
            for number in range(50):
                found = {id(each) for each in pool.map(registry.get, [f"name {number}"] * 16)}
                assert len(found) == 1

    def test_names_made_at_run_time_do_not_fill_the_memory(self) -> None:
        registry = Dependencies()
        for number in range(5000):
            registry.get(f"name {number}")
        assert len(registry._others) <= registry.MAX_UNCONFIGURED

    def test_a_full_registry_still_finds_its_entries(self) -> None:
        registry = Dependencies()
        for number in range(registry.MAX_UNCONFIGURED):
            registry.get(f"name {number}")
        first = registry.get("name 0")
        for number in range(registry.MAX_UNCONFIGURED):
            registry._make(f"name {number}", registry._others)
        assert registry.get("name 0") is first

    def test_a_configured_name_is_never_forgotten(self) -> None:
        shop = dependency("shop")
        for number in range(3000):
            DEPENDENCIES.get(f"name {number}")
        assert DEPENDENCIES.get("shop") is shop

    def test_the_budget_of_an_operation_can_be_configured_before_and_after(self) -> None:
        poor = BudgetPolicy(capacity=0.0)
        before = Guard("before", backoff=AT_ONCE)
        dependency("before", budget=poor)
        dependency("after", budget=poor)
        for by in (before, Guard("after", backoff=AT_ONCE)):
            script = Script(ConnectionError(), "never")
            with pytest.raises(ConnectionError):
                by.call(script)
            assert script.executions == 1

    def test_operations_named_at_run_time_do_not_push_dependencies_out(self) -> None:
        """Calls such as `call(f"fetch {id}", …)` must not make the process forget an open breaker."""
        shop = DEPENDENCIES.get("shop")
        guard("shop")
        for number in range(3000):
            call(f"fetch {number}", lambda attempt: None)
        assert DEPENDENCIES.get("shop") is shop
