"""Incidents: episodes of trouble, in hours before the end."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from tests.browser.scene.time import HOURS


class Episode(NamedTuple):
    """An episode between these hours before the end; the other fields are those of acme.trouble."""

    begins: float
    ends: float
    name: str
    kind: str
    share: float = 1.0
    flaky: bool = False
    seconds: float = 0.0
    said: str = ""


ALWAYS = HOURS

EPISODES = [
    # The usual background of errors
    Episode(ALWAYS, 0, "stripe", "402", 0.03, seconds=0.9),
    Episode(ALWAYS, 0, "stripe", "500", 0.03, flaky=True),
    Episode(ALWAYS, 0, "recipients", "bug", 0.02),
    Episode(ALWAYS, 0, "mailer", "422", 0.025, said="The address of the recipient is not valid."),
    Episode(ALWAYS, 0, "hooks", "410", 0.03),
    Episode(ALWAYS, 0, "hooks", "500", 0.06, flaky=True),
    Episode(ALWAYS, 0, "hooks", "unknown_host", 0.02),
    Episode(ALWAYS, 0, "crm", "422", 0.03),
    Episode(ALWAYS, 0, "crm", "429", 0.05, flaky=True),
    Episode(ALWAYS, 0, "stock", "bug", 0.03),
    Episode(ALWAYS, 0, "memory", "bug", 0.08),
    Episode(ALWAYS, 0, "warehouse", "504", 0.02, flaky=True, seconds=6),
    # Three days of incidents
    Episode(70, 66, "bank", "timeout", 0.8, seconds=30),
    Episode(64, 61, "search", "503"),
    Episode(63, 62.6, "stripe", "401", said="Expired API key provided: sk_live_****4eC3."),
    Episode(60, 40, "names", "bug", 0.3),
    Episode(52, 50.5, "mailer", "refused"),
    Episode(46, 42, "warehouse", "409", 0.35),
    Episode(45, 38, "model", "400", 0.5, said="This model's maximum context length is 128000 tokens."),
    Episode(36, 28, "prices", "bug", 0.6),
    Episode(33, 32, "carrier", "404", 0.3, said="There is no service point with this number."),
    Episode(26, 24.6, "bucket", "403", said="The credentials of this role have expired."),
    Episode(24, 21, "bank", "500", 0.7),
    Episode(22, 8, "empty_reports", "bug", 0.5),
    Episode(20, 17, "names", "bug", 0.3),
    Episode(16, 0, "addresses", "bug", 0.15),
    Episode(15, 14.2, "search", "422", 0.8, said="mapper [price] cannot be changed from type [long]."),
    Episode(12, 0, "crm", "403", 0.12),
    Episode(9, 7, "carrier", "timeout", 0.6, seconds=30),
    Episode(6, 0, "languages", "bug", 0.4),
    Episode(5, 0, "hooks", "timeout", 0.2, seconds=10),
    Episode(5, 2, "zones", "bug", 0.5),
    Episode(6, 0.6, "analytics", "timeout", 0.9, seconds=60),
    Episode(3.5, 2.5, "feeds", "garbage"),
    Episode(3, 0, "hooks", "cut_off", 0.08),
    Episode(2.5, 0, "accounts", "bug", 0.4),
    Episode(1.5, 0, "mailer", "502", 0.15, flaky=True),
    Episode(0.42, 0, "stripe", "503", said="We are experiencing an outage of card payments."),
]


def troubles_at(hours_left: float) -> dict[str, list[dict[str, Any]]]:
    """Return the troubles at that moment; the latest episode comes first."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in sorted(EPISODES, key=lambda episode: episode.begins):
        if each.begins >= hours_left >= each.ends:
            trouble = dict(zip(Episode._fields[3:], each[3:], strict=True))
            found[each.name].append(trouble)
    return found
