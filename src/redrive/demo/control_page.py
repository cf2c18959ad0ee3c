"""The page of the outside world: every service, how it is, and a button to break or repair it. No scripts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html import escape
from importlib.resources import files

from redrive.demo.path import ShippingZones
from redrive.demo.world import FAILING, REFUSING, SLOW, STOPPED, UP, USUAL_FAULT, World

WHAT = {
    "payments": "charges cards",
    "carrier": "prints labels for parcels",
    "mail": "delivers mail",
    "identity": "keeps accounts and keys",
    "supplier": "tells of new products",
    "analytics": "computes figures for reports",
}
WORDS = {
    UP: "works",
    FAILING: "answers 503 to everything",
    STOPPED: "is stopped: connections break",
    SLOW: "takes three seconds for an answer",
    REFUSING: "refuses our credential",
}
BUTTONS = {
    FAILING: "Let it fail",
    STOPPED: "Stop it",
    SLOW: "Slow it down",
    REFUSING: "Revoke our credential",
}


@cache
def style() -> bytes:
    return (files("redrive.demo") / "control.css").read_bytes()


def page(world: World, zones: ShippingZones) -> str:
    lines = "\n".join(_service(name, state) for name, state in world.states().items())
    back = f'<p><a href="{escape(zones.pages)}/app/admin">Back to Redrive</a></p>' if zones.pages else ""
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<title>Acme and the outside world</title><link rel="stylesheet" href="/style.css"></head>',
            "<body><main><h1>Acme and the outside world</h1>",
            back,
            *_zones(zones),
            "<h2>What Acme depends on</h2>",
            '<p class="quiet">Break one, and see what becomes of the work.</p>',
            f"<ul>{lines}</ul>",
            "</main></body></html>",
        )
    )


def _service(name: str, state: str) -> str:
    deed = "break" if state == UP else "repair"
    button = BUTTONS[USUAL_FAULT[name]] if state == UP else "Repair it"
    tone = "good" if state == UP else "bad"
    return (
        f'<li><div><strong>{name}</strong> <span class="quiet">{WHAT[name]}</span><br>'
        f'<span class="{tone}">{WORDS[state]}</span></div>'
        f'<form method="post" action="/{deed}/{name}">'
        f'<button aria-label="{button}: {name}">{button}</button></form></li>'
    )


def _zones(zones: ShippingZones) -> Iterator[str]:
    """First of all: here is what the guided path leads to. Until that is repaired, it is marked."""
    file = escape(str(zones.file))
    name = f'<div><strong>Shipping zones</strong> <span class="quiet">{file}</span><br>'
    if zones.is_fixed:
        yield "<h2>Acme itself</h2>"
        yield f'<ul><li>{name}<span class="good">Norway has one</span></div></li></ul>'
        return
    yield '<h2>Acme itself: <span class="bad">to be repaired</span></h2>'
    yield f'<ul class="wanted"><li>{name}'
    yield '<span class="bad">Norway has none, so no label can be printed for it</span></div>'
    yield '<form method="post" action="/zones/fix"><button class="primary">Add Norway</button></form>'
    yield "</li></ul>"
