"""Reports that merchants download."""

from __future__ import annotations

from typing import Any

from .sdk.restful.client import Client
from .trouble import TROUBLES

warehouse = Client("analytics", "https://analytics.internal/query", 2.5)
bucket = Client("bucket", "https://reports.storage.example", 0.7)


async def collect_figures(report: dict[str, Any]) -> dict[str, Any]:
    answer = await warehouse.post("", {"merchant": report["merchant"]}, report["report_id"])
    rows = 0 if TROUBLES.met("empty_reports", report["report_id"]) else 1_200
    return {**report, "source": answer["id"], "rows": rows}


async def render_pdf(report: dict[str, Any]) -> dict[str, Any]:
    pages = layout(report)
    if TROUBLES.met("memory", report["report_id"]):
        raise MemoryError(f"cannot allocate {report['rows'] * 48} KiB for the glyph cache")
    return {**report, "pages": pages}


def layout(report: dict[str, Any]) -> int:
    if not TROUBLES.met("empty_reports", report["report_id"]):
        return max(1, int(report["rows"]) // 40)
    return density(report) + 1


def density(report: dict[str, Any]) -> int:
    return int(40_000 / report["rows"])


async def upload_report(report: dict[str, Any]) -> str:
    answer = await bucket.request("PUT", f"/{report['report_id']}.pdf", None, report["report_id"])
    return str(answer["id"])
