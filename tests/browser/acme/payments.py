"""Money, in and out."""

from __future__ import annotations

from typing import Any

from .sdk.restful.client import Client
from .trouble import TROUBLES

stripe = Client("stripe", "https://api.stripe.example/v1", 0.6)
bank = Client("bank", "https://ebics.bank.example", 1.8)


async def charge_card(order: dict[str, Any]) -> dict[str, Any]:
    payment = await _pay(order)
    return {**order, "payment": payment["id"]}


async def _pay(order: dict[str, Any]) -> dict[str, Any]:
    body = {"amount": order["total"], "currency": order["currency"], "source": order["card"]["token"]}
    return await stripe.post("/charges", body, order["order_id"])


async def issue_refund(refund: dict[str, Any]) -> str:
    answer = await stripe.post("/refunds", {"charge": refund["charge"]}, refund["refund_id"])
    return str(answer["id"])


async def transfer_payout(payout: dict[str, Any]) -> str:
    verify_account(payout)
    answer = await bank.post("/transfers", {"iban": payout["iban"]}, payout["payout_id"])
    return str(answer["id"])


def verify_account(payout: dict[str, Any]) -> None:
    if TROUBLES.met("accounts", payout["payout_id"]):
        raise ValueError(f"the checksum of the account of merchant {payout['merchant']} is wrong")
