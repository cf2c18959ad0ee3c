"""Accounts of new customers: opened, given a key and rights, welcomed."""

from __future__ import annotations

from typing import Any

from redrive import Context

from .outside import Outside

Account = dict[str, Any]


class Accounts:
    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    async def open_account(self, account: Account, context: Context) -> Account:
        body = {"reference": account["account"], "email": account["email"], "password": account["password"]}
        opened = await self._outside.post("identity", "/accounts", body, context)
        return {**account, "id": opened["id"]}

    async def issue_key(self, account: Account, context: Context) -> Account:
        body = {"reference": account["account"], "id": account["id"]}
        issued = await self._outside.post("identity", "/keys", body, context)
        return {**account, "api_key": issued["id"]}

    async def grant(self, account: Account, context: Context) -> Account:
        body = {"reference": account["account"], "plan": account["plan"]}
        await self._outside.post("identity", "/grants", body, context)
        return account

    async def welcome(self, account: Account, context: Context) -> str:
        body = {"reference": account["account"], "to": account["email"], "text": "Welcome to Acme."}
        await self._outside.post("mail", "/messages", body, context)
        return f"{account['account']} is ready"
