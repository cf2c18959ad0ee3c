"""Reports for merchants: figures, made into pages, sent."""

from __future__ import annotations

from typing import Any

from redrive import Context

from .outside import Outside

Report = dict[str, Any]


class Reports:
    def __init__(self, outside: Outside) -> None:
        self._outside = outside

    async def collect(self, report: Report) -> Report:
        answer = await self._outside.get("analytics", "/figures", report["report"], timeout=1.0)
        return {**report, "rows": answer["rows"]}

    def render(self, report: Report) -> Report:
        return {**report, "pages": 1 + report["rows"] // 40}

    async def send(self, report: Report, context: Context) -> str:
        body = {"reference": report["report"], "to": report["to"], "text": f"{report['pages']} pages"}
        await self._outside.post("mail", "/messages", body, context)
        return f"{report['report']} is sent"
