"""Words that somebody brings along from elsewhere are answered with those of this house."""

from __future__ import annotations

import pytest

from redrive import Redrive
from redrive.errors import InvalidValueError


@pytest.mark.parametrize(
    ("option", "meant"),
    [("max_retries", "max_attempts"), ("retries", "max_attempts"), ("timeuot", "timeout")],
)
def test_an_option_of_another_system(option: str, meant: str) -> None:
    app = Redrive("sqlite://:memory:")
    with pytest.raises(InvalidValueError, match=f"did you mean '{meant}'"):
        app.task(**{option: 3})(lambda: None)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["delay", "apply_async", "perform_async", "send"])
def test_a_task_is_not_started_by_itself(name: str) -> None:
    app = Redrive("sqlite://:memory:")

    @app.task
    def charge(order: int) -> None: ...

    with pytest.raises(AttributeError, match=r"app\.start\(charge, payload\)"):
        getattr(charge, name)
    assert not hasattr(charge, "nothing_of_the_kind")
