"""The page that starts a run."""

from __future__ import annotations

from dataclasses import replace

from tests.server.admin.reading import read
from tests.server.house import House

from redrive.parts import parts_of

NEW = "/app/admin/runs/new"


async def test_the_tasks_of_the_application_can_be_started(house: House) -> None:
    async def greet_all(names: list[str], loud: bool = True, tone: str = "kind") -> None: ...

    house.app.task(greet_all)
    admin = await house.keyed("ADMIN")
    chooser = await read(admin, NEW)
    assert f"{NEW}?work=greet_all" in chooser.links
    form = await read(admin, f"{NEW}?work=greet_all")
    assert "POST /api/v1/runs" in form.actions
    [names] = form.find("textarea", name="payload.names")
    assert names.attributes["data-type"] == "json"
    assert "required" in names.attributes
    [loud] = form.find("input", name="payload.loud")
    assert (loud.attributes["type"], "checked" in loud.attributes) == ("checkbox", True)
    [tone] = form.find("input", name="payload.tone")
    assert (tone.attributes["value"], "required" in tone.attributes) == ("kind", False)


async def test_the_first_step_may_have_a_former_name(house: House) -> None:
    """A workflow keeps the names that its tasks had when it was defined."""

    @house.app.task(name="greet_everybody", aliases=["greet_all"])
    async def greet_all(names: list[str], loud: bool = True) -> None: ...

    registry = parts_of(house.app).registry
    [step] = registry.workflow("greet_everybody").steps
    registry.add_workflow("ceremony", [replace(step, task="greet_all")])
    form = await read(await house.keyed("ADMIN"), f"{NEW}?work=ceremony")
    assert form.find("textarea", name="payload.names")


async def test_an_unknown_name_is_answered_with_a_suggestion(house: House) -> None:
    page = await read(await house.keyed("ADMIN"), f"{NEW}?work=gret", 404)
    assert "did you mean &#39;greet&#39;?" in page.text or "did you mean 'greet'?" in page.text


async def test_only_callers_who_may_start_runs_have_the_page_and_its_button(house: House) -> None:
    staff, admin = await house.keyed("STAFF"), await house.keyed("ADMIN")
    assert (await staff.get(NEW)).status_code == 403
    assert NEW not in (await read(staff, "/app/admin/runs")).links
    assert NEW in (await read(admin, "/app/admin/runs")).links


async def test_a_row_of_a_failed_run_has_retry(house: House) -> None:
    failed = await house.app.start("order", 7)
    done = await house.app.start("greet")
    await house.work()
    admin, viewer = await house.keyed("ADMIN"), await house.keyed("VIEWER")
    actions = (await read(admin, "/app/admin/runs")).actions
    assert f"POST /api/v1/runs/{failed.id}/retry" in actions
    assert f"POST /api/v1/runs/{done.id}/retry" not in actions
    assert f"POST /api/v1/runs/{failed.id}/retry" not in (await read(viewer, "/app/admin/runs")).actions
