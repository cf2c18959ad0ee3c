"""The page that replays a dead letter from a chosen step, with a changed payload."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from redrive.engine.run_view import StepView
from redrive.errors import InvalidValueError, NotFoundError, ReplayRefusedError
from redrive.policy.access import Permission
from redrive.policy.codec import JsonValue
from redrive.server.access_control import may
from redrive.server.admin.page import OnPage, Page, Pages
from redrive.server.api.request import Id
from redrive.words.replay import MODES

pages = Pages("replay_editor")


@pages.get("/dlq/{id}/replay", may(Permission.RETRY))
async def editor(
    page: OnPage, letter_id: Id, step: Annotated[int | None, Query(ge=1, le=100_000)] = None
) -> Response:
    """Show the input of a step, redacted, in a form. `step` counts from 1; default: where the run stopped."""
    failures, problem, preview, payload = page.visit.failures, "", None, ""
    letter = await failures.view(letter_id)
    index = letter.step_index if step is None else step - 1
    try:
        preview = await failures.replays.preview(letter.id, from_step=None if step is None else index)
        index = preview.from_step
        payload = editable(await failures.replays.input(letter.id, index))
    except (InvalidValueError, ReplayRefusedError) as error:
        problem = str(error)
    return await page.render(
        "replay_editor.html",
        place="dlq",
        letter=letter,
        preview=preview,
        steps=await steps_before(page, letter.run_id, letter.step_index),
        index=index,
        payload=payload,
        problem=problem,
        modes=MODES,
    )


async def steps_before(page: Page, run_id: str, step_index: int) -> list[StepView]:
    """Return the steps of a run that a replay may start from: up to the failed one, or where it stopped."""
    try:
        last = min(step_index, (await page.visit.runs.view(run_id)).step_index)
        return [step for step in await page.visit.runs.steps(run_id) if step.step_index <= last]
    except NotFoundError:
        return []


def editable(value: JsonValue) -> str:
    """Write JSON for a text field. A lone surrogate, which a page can't contain, is escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, indent=2)
    return text
