"""A language model that helps the support team."""

from __future__ import annotations

from typing import Any

from .sdk.restful.client import Client
from .trouble import TROUBLES

model = Client("model", "https://api.model.example/v1/chat", 3.0)


class SettingsError(LookupError):
    pass


async def summarise_ticket(ticket: dict[str, Any]) -> str:
    answer = await model.post("", prompt_for(ticket), ticket["ticket_id"])
    return str(answer["id"])


def prompt_for(ticket: dict[str, Any]) -> dict[str, Any]:
    language = ticket["language"]
    if TROUBLES.met("languages", ticket["ticket_id"]):
        raise SettingsError(f"no prompt is configured for the language {language!r}")
    return {"model": "summary-large", "language": language}
