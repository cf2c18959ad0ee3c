"""Acme's application: its workflows, the retry policies of their steps, and the breakers they use."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from redrive import Backoff, BreakerPolicy, Redrive, RetryPolicy
from redrive.policy import Exponential, Proportional
from redrive.policy.breaker_policy import Ramp
from redrive.policy.template import Template
from redrive.settings import Settings

from .services import Services
from .tasks import CatalogueImport, Checkout, MerchantReport, OrderProjections, Provisioning

EVENTS = "ACME_EVENTS_URL"
ORDERS = "acme.orders"
"""The Redis stream to which the web shop publishes the events of orders."""

PATIENT = RetryPolicy(
    name="patient",
    max_attempts=6,
    backoff=Backoff(Exponential(base=1.0, factor=2.0), cap=15.0, jitter=Proportional(0.25)),
)
BRIEF = RetryPolicy(
    name="brief",
    max_attempts=2,
    backoff=Backoff(Exponential(base=0.5, factor=2.0), cap=2.0, jitter=Proportional(0.25)),
)
CAUTIOUS = BreakerPolicy(
    window_calls=8, minimum_calls=4, cool_down=3.0, longest_open=12.0, successes_to_close=2
)
GENTLE = Ramp(first=3, factor=1.5, every=1.0)


def create_app(
    settings: Settings, services: Services, folder: Path, *, log: bool = False, events: str = ""
) -> Redrive:
    """Create the application.

    folder  contains the table of shipping zones
    events  the URL of the Redis with the stream of orders; empty: run without the stream
    """
    app = Redrive(settings=settings, log=log)
    for name in ("payments", "carrier", "mail"):
        app.breaker(name, CAUTIOUS, probe=partial(services.probe, name), ramp=GENTLE)
    app.template(Template("card expired", http_status=402, tags=("card",), owner="billing@acme.example"))
    checkout = Checkout(services, folder)
    _add_checkout(app, checkout)
    _add_provisioning(app, Provisioning(services))
    _add_import(app, CatalogueImport(services))
    _add_report(app, MerchantReport(services))
    if events:
        _add_orders(app, OrderProjections(checkout), events)
    return app


def _add_checkout(app: Redrive, checkout: Checkout) -> None:
    reserve = _task(app, checkout.reserve, queue="orders", effect="none")
    charge = _task(app, checkout.charge, queue="payments", breaker="payments", retry=PATIENT, timeout=5.0)
    label = _task(app, checkout.label, queue="orders", breaker="carrier", retry=PATIENT, timeout=5.0)
    confirm = _task(app, checkout.confirm, queue="mail", breaker="mail", retry=PATIENT, timeout=5.0)
    app.workflow("checkout", [reserve, charge, label.step(config={"service": "express"}), confirm])


def _add_provisioning(app: Redrive, provisioning: Provisioning) -> None:
    steps = [
        _task(app, function, queue="accounts", retry=BRIEF, timeout=5.0)
        for function in (provisioning.open_account, provisioning.issue_key, provisioning.grant)
    ]
    welcome = _task(app, provisioning.welcome, queue="mail", breaker="mail", retry=PATIENT, timeout=5.0)
    app.workflow("provisioning", [*steps, welcome])


def _add_import(app: Redrive, catalogue: CatalogueImport) -> None:
    fetch = _task(app, catalogue.fetch, queue="imports", retry=BRIEF, effect="none")
    parse = _task(app, catalogue.parse, queue="imports", effect="none")
    app.workflow("import", [fetch, parse, _task(app, catalogue.publish, queue="imports")])


def _add_report(app: Redrive, report: MerchantReport) -> None:
    collect = _task(app, report.collect, queue="reports", retry=BRIEF, timeout=1.5, effect="none")
    render = _task(app, report.render, queue="reports", effect="none")
    send = _task(app, report.send, queue="mail", breaker="mail", retry=PATIENT)
    app.workflow("report", [collect, render, send])


def _add_orders(app: Redrive, projections: OrderProjections, url: str) -> None:
    orders = app.stream("orders", url, stream=ORDERS, queue="events")
    orders.projector("revenue", types=["order.placed"], queue="events")(projections.revenue)
    orders.projector("delivery", types=["order.placed"], queue="events", retry=BRIEF)(projections.delivery)


def _task(app: Redrive, function: Any, **options: Any) -> Any:
    return app.task(name=function.__name__, **options)(function)
