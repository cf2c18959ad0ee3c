"""The functions that templates can call."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from redrive.server.admin.environment import environment, mark, pieces


def test_a_value_that_is_missing_is_a_dash() -> None:
    for name in ("number", "percent", "duration"):
        assert environment().from_string(f"{{{{ none|{name} }}}}").render() == "–"
    for name in ("ago", "absolute", "clock"):
        assert environment().from_string(f"{{{{ none|{name} }}}}").render(now=0.0, preferences=None) == "–"


def test_every_tone_has_its_own_shape() -> None:
    states = ("OPEN", "PARTIAL", "RUNNING", "PENDING", "RESOLVED", "IGNORED")
    assert len({mark(state).shape for state in states}) == len(states)
    assert mark("OPEN") == ("bad", "octagon", "Open")


def test_an_address_is_broken_after_its_slashes() -> None:
    assert pieces("POST https://api.example/v1/charges") == ["POST https://api.example/", "v1/", "charges"]
    assert pieces("over / and out/") == ["over /", " and out/"]
    assert pieces("") == [""]


@given(st.text())
def test_no_template_loses_a_function_by_that(text: str) -> None:
    assert "".join(pieces(text)) == text
