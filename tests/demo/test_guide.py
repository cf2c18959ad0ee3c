"""The guide as HTML: its steps, and the next one."""

from __future__ import annotations

from tests.server.admin.reading import Reading

from redrive.demo.guide import GuideStep, render

STEPS = (
    GuideStep("Look", "See what failed.", "/app/admin/dlq", "Dead letters", "redrive dlq list", True),
    GuideStep("Mend", "Put it <right>.", "http://127.0.0.1:9/", "There", "", False),
    GuideStep("Wait", "Nothing to do.", "", "", "", False),
)


def test_a_guide_shows_its_steps_and_what_comes_next() -> None:
    page = Reading(render(STEPS))
    [box] = page.find("section", id="guide")
    assert [each.text.split() for each in page.find("li", class_="done")] == [["Done:", "Look"]]
    assert [each.text.split() for each in page.find("li", aria_current="step")] == [["2", "Mend"]]
    assert "Put it <right>." in box.text
    assert "Nothing to do." not in box.text
    assert page.find("a", href="http://127.0.0.1:9/")


def test_after_the_last_step_it_says_so() -> None:
    page = Reading(render([step._replace(done=True) for step in STEPS]))
    assert "That's it" in page.text
    assert not page.find("li", aria_current="step")
