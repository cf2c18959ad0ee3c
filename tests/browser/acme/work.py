"""The shop's background work."""

from __future__ import annotations

from typing import Any

from redrive import BreakerPolicy, Redrive
from redrive.policy import RUN
from redrive.policy.template import Template
from redrive.settings import Settings

from . import assistant, checkout, mail, payments, projections, reports, sync

app = Redrive(settings=Settings.load(), log=False, durable=False)

_QUICK = BreakerPolicy(
    window_calls=6, minimum_calls=4, cool_down=1.0, longest_open=4.0, probe_slots=1, successes_to_close=1
)
for dependency in ("stripe", "mailer", "warehouse"):
    app.breaker(dependency, _QUICK)

app.template(Template("card declined", http_status=402, tags=("card",), owner="billing@acme.example"))
app.template(Template("rate limit", category="rate_limit", redrive="linear", max_redrives=3))
app.template(
    Template("mailbox", task="invoice.send_email", http_status=422, redrive="exponential", max_redrives=2)
)


def _task(function: Any, name: str | None = None, **options: Any) -> Any:
    return app.task(name=name or function.__name__, **options)(function)


reserve = _task(checkout.reserve_stock, queue="orders", breaker="warehouse")
charge = _task(payments.charge_card, queue="payments", breaker="stripe", timeout=30)
ship = _task(checkout.create_shipment, queue="orders", effect="unsafe")
confirm = _task(checkout.confirm_order, queue="mail", breaker="mailer")
app.workflow("checkout", [reserve, charge, ship.step(config={"service": "express"}), confirm])

_task(payments.issue_refund, "refund.issue", queue="payments", breaker="stripe", effect="unsafe")
_task(payments.transfer_payout, "payout.transfer", queue="payments", effect="unsafe", timeout=60)
_task(mail.send_invoice, "invoice.send_email", queue="mail", breaker="mailer")

collect = _task(reports.collect_figures, queue="reports", effect="none", timeout=120)
render = _task(reports.render_pdf, queue="reports", effect="none")
upload = _task(reports.upload_report, queue="reports")
app.workflow("report", [collect, render.step(config={"paper": "A4"}), upload])

_task(sync.push_contact, "crm.sync", queue="sync")
_task(sync.deliver_hook, "webhook.deliver", queue="webhooks", concurrency=50, retry=RUN, max_attempts=6)
fetch = _task(sync.fetch_feed, queue="sync", effect="none")
parse = _task(sync.parse_feed, queue="sync", effect="none")
index = _task(sync.index_products, queue="sync")
app.workflow("catalog.import", [fetch, parse, index])

_task(assistant.summarise_ticket, "ticket.summarise", queue="assistant", timeout=90)

orders = app.stream("orders", "redis://localhost:1", queue="events")
orders.projector("invoice", types=["order.paid"], queue="events", ordered_by="user")(projections.invoice)
orders.projector("loyalty", version=2, queue="events", max_attempts=1)(projections.loyalty)
orders.projector("search", queue="events")(projections.search)
app.stream("clicks", "redis://localhost:1", queue="events").projector("search", queue="events")(
    projections.search
)
