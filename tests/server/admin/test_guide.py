"""The guide: a box in the pages of a server that was given one, and of no other."""

from __future__ import annotations

from collections.abc import Sequence

from tests.server.admin.reading import read
from tests.server.house import House

from redrive.server.guide import GuideStep

STEPS = (
    GuideStep("Look", "See what failed.", "/app/admin/dlq", "Dead letters", "redrive dlq list", True),
    GuideStep("Mend", "Put it <right>.", "http://127.0.0.1:9/", "There", "", False),
    GuideStep("Wait", "Nothing to do.", "", "", "", False),
)


async def test_there_is_no_guide_unless_a_server_was_given_one(small_house: House) -> None:
    page = await read(small_house.client(await small_house.key()), "/app/admin")
    assert not page.find("section", id="guide")


async def test_a_guide_shows_its_steps_and_what_comes_next(small_house: House) -> None:
    asked = []

    async def guiding(path: str) -> Sequence[GuideStep]:
        asked.append(path)
        return STEPS

    small_house.api.state.site.guide = guiding
    client = small_house.client(await small_house.key())
    page = await read(client, "/app/admin/dlq")
    [box] = page.find("section", id="guide")
    assert asked == ["/app/admin/dlq"]
    assert [each.text.split() for each in page.find("li", class_="done")] == [["Done:", "Look"]]
    assert [each.text.split() for each in page.find("li", aria_current="step")] == [["2", "Mend"]]
    assert "Put it <right>." in box.text
    assert "Nothing to do." not in box.text
    assert page.find("a", href="http://127.0.0.1:9/")


async def test_whoever_has_hidden_the_guide_does_not_see_it(small_house: House) -> None:
    async def guiding(path: str) -> Sequence[GuideStep]:
        return STEPS

    small_house.api.state.site.guide = guiding
    client = small_house.client(await small_house.key(), Cookie="redrive_guide=hidden")
    assert not (await read(client, "/app/admin")).find("section", id="guide")
