"""Emails to customers."""

from __future__ import annotations

from smtplib import SMTPRecipientsRefused
from typing import Any

from .sdk.restful.client import Client
from .trouble import TROUBLES

mailer = Client("mailer", "https://api.mail.example/v3/messages", 0.15)


async def send_invoice(invoice: dict[str, Any]) -> str:
    return await send("invoice", invoice["to"], invoice["number"])


async def send(template: str, to: str, key: object) -> str:
    if TROUBLES.met("recipients", key):
        raise SMTPRecipientsRefused({to: (550, b"5.1.1 no such mailbox here")})
    answer = await mailer.post("", {"template": template, "to": to}, key)
    return str(answer["id"])
