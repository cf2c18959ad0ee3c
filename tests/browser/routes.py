"""Every page of a site that holds the scene, with something worth seeing on it."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from tests.browser.site import Site

ADMIN = "/app/admin"


class Route(NamedTuple):
    """`told` is what the browser tells of it on its console, where it tells something."""

    name: str
    path: str
    role: str | None = "owner"
    told: str | None = None


PLAIN = [
    Route("sign-in", "/app/sign-in", None),
    Route("overview", ADMIN),
    Route("overview-7d", f"{ADMIN}?span=7d"),
    Route("overview-viewer", ADMIN, "viewer"),
    Route("runs", f"{ADMIN}/runs"),
    Route("run-start", f"{ADMIN}/runs/new"),
    Route("run-start-form", f"{ADMIN}/runs/new?work=checkout"),
    Route("runs-held", f"{ADMIN}/runs?q=is:held"),
    Route("runs-none", f"{ADMIN}/runs?q=workflow:nothing-like-it"),
    Route("events", f"{ADMIN}/events"),
    Route("events-failed", f"{ADMIN}/events?q=is:failed", "viewer"),
    Route("events-none", f"{ADMIN}/events?q=type:nothing-like-it"),
    Route("streams", f"{ADMIN}/streams"),
    Route("stream", f"{ADMIN}/streams/orders"),
    Route("stream-away", f"{ADMIN}/streams/clicks"),
    Route("dlq", f"{ADMIN}/dlq"),
    Route("dlq-flat", f"{ADMIN}/dlq?view=flat"),
    Route("dlq-viewer", f"{ADMIN}/dlq", "viewer"),
    Route("dlq-timeouts", f"{ADMIN}/dlq?q=is:open+category:timeout"),
    Route("dlq-none", f"{ADMIN}/dlq?q=workflow:nothing-like-it"),
    Route("dlq-mistaken", f"{ADMIN}/dlq?q=categroy:timeout", told="status of 422"),
    Route("replays", f"{ADMIN}/replays"),
    Route("breakers", f"{ADMIN}/breakers"),
    Route("queues", f"{ADMIN}/queues"),
    Route("workers", f"{ADMIN}/workers"),
    Route("audit", f"{ADMIN}/audit"),
    Route("audit-actor", f"{ADMIN}/audit?actor=nobody-like-it"),
    Route("settings", f"{ADMIN}/settings"),
    *(
        Route(f"settings-{each}", f"{ADMIN}/settings?section={each}")
        for each in (
            "keys",
            "organizations",
            "dead-letters",
            "redaction",
            "retention",
            "alerts",
            "server",
            "me",
        )
    ),
    Route("settings-viewer", f"{ADMIN}/settings", "viewer"),
    Route("forbidden", f"{ADMIN}/settings?section=keys", "viewer", told="status of 403"),
    Route("keys", f"{ADMIN}/keys"),
    Route("missing", f"{ADMIN}/dlq/0123456789abcdef0123456789abcdef", told="status of 404"),
]


async def routes(site: Site) -> list[Route]:
    return [
        *PLAIN,
        *await _runs(site),
        *await _events(site),
        *await _letters(site),
        *await _groups(site),
        *await _replays(site),
    ]


async def _runs(site: Site) -> list[Route]:
    asked = {
        "run": "is:dlq_pending workflow:checkout",
        "run-done": "is:success workflow:checkout",
        "run-held": "is:held",
        "run-retrying": "is:retrying",
        "run-executing": "is:executing",
    }
    found = {name: await _first(site, "/api/v1/runs", query) for name, query in asked.items()}
    return [Route(name, f"{ADMIN}/runs/{each['id']}") for name, each in found.items() if each]


async def _events(site: Site) -> list[Route]:
    asked = {"event": "is:failed", "event-live": "is:live"}
    found = {name: await _first(site, "/api/v1/stored-events", query) for name, query in asked.items()}
    return [Route(name, f"{ADMIN}/events/{each['id']}") for name, each in found.items() if each]


async def _letters(site: Site) -> list[Route]:
    asked = {
        "letter": "is:open step:create_shipment category:unknown",
        "letter-retried": "is:open category:timeout step:collect_figures",
        "letter-exhausted": "is:exhausted",
        "letter-resolved": "is:resolved",
        "letter-payment": "is:open step:charge_card",
    }
    found = {name: await _first(site, "/api/v1/dead-letters", query) for name, query in asked.items()}
    known = [Route(name, f"{ADMIN}/dlq/{each['id']}") for name, each in found.items() if each]
    several = found["letter-retried"]
    if several:
        known.append(Route("letter-compare", f"{ADMIN}/dlq/{several['id']}?compare=1,{several['attempts']}"))
        known.append(Route("replay-one", f"{ADMIN}/replays/new?ids={several['id']}"))
    return known


async def _groups(site: Site) -> list[Route]:
    groups = (await site.get("/api/v1/groups", sort="occurrences", size=200))["items"]
    known = []
    for name, fits in (("group", "OPEN"), ("group-resolved", "RESOLVED"), ("group-ignored", "IGNORED")):
        for group in groups:
            if group["state"] == fits:
                print_ = quote(group["fingerprint"], safe="")
                known.append(Route(name, f"{ADMIN}/dlq/groups/{print_}"))
                if name == "group":
                    known.append(Route("replay-new", f"{ADMIN}/replays/new?{_query(group)}"))
                break
    return known


def _query(group: dict[str, Any]) -> str:
    return urlencode({"group": group["fingerprint"]})


async def _replays(site: Site) -> list[Route]:
    operations = (await site.get("/api/v1/operations", size=50))["items"]
    by_state = {each["state"]: each["id"] for each in reversed(operations)}
    return [Route(f"replay-{state.lower()}", f"{ADMIN}/replays/{id_}") for state, id_ in by_state.items()]


async def _first(site: Site, path: str, query: str) -> Any:
    """The newest that there is, if any."""
    items = (await site.get(path, q=query, size=1))["items"]
    return items[0] if items else None
