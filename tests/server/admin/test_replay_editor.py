"""The page that replays a dead letter with a changed payload."""

from __future__ import annotations

from tests.server.admin.reading import read
from tests.server.house import House

from redrive import FinalError


async def test_it_starts_where_the_run_stopped(house: House) -> None:
    """An earlier replay started at a previous step, failed, and closed the dead letter of that step."""
    broken = {"second"}

    def step(name: str) -> object:
        async def run(payload: dict[str, str]) -> dict[str, str]:
            if name in broken:
                raise FinalError(name)
            return {"by": name}

        return house.app.task(run, name=name)  # type: ignore[call-overload]

    flow = house.app.workflow("flow", [step("first"), step("second")])  # type: ignore[list-item]
    run = await house.app.start(flow, {"by": "hand"})
    await house.work()
    failures = house.app.failures(by="ana")
    later = await run.dead_letter()
    assert later is not None
    await failures.replay(later.id, from_step=0)
    broken.add("first")
    await house.work()
    earlier = await run.dead_letter()
    assert earlier is not None
    await failures.archive(earlier.id, "known")

    editor = f"/app/admin/dlq/{later.id}/replay"
    page = await read(await house.keyed("ADMIN"), editor)

    assert page.find("textarea", name="payload")
    assert '"hand"' in page.text
    assert f"{editor}?step=1" not in page.links  # no other step is left to choose
    assert f"{editor}?step=2" not in page.links
