"""The result of a campaign, as a table for people and as a line of JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tests.crash.figures import Figures, Spread


@dataclass(frozen=True)
class Report:
    """The result of a campaign.

    occurrences     how often each fault took effect
    findings  the broken promises
    """

    database: str
    faults: tuple[str, ...]
    seed: int
    occurrences: dict[str, int]
    findings: list[str]
    figures: Figures

    @property
    def vacuous(self) -> list[str]:
        """Return the faults that never took effect: they prove nothing."""
        return [name for name, count in self.occurrences.items() if not count]

    @property
    def sound(self) -> bool:
        return not self.findings and not self.vacuous

    def __str__(self) -> str:
        rows = [*self.figures.rows(), *self.occurrences.items()]
        width = max(len(name) for name, _ in rows)
        table = [f"{name:<{width}}  {_shown(value):>24}" for name, value in rows]
        problems = [f"BROKEN  {each}" for each in self.findings]
        problems += [f"VACUOUS {each} never happened" for each in self.vacuous]
        return "\n".join([f"{self.database}: {', '.join(self.faults)}; seed {self.seed}", *table, *problems])

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "vacuous": self.vacuous}


def _shown(value: object) -> str:
    if isinstance(value, Spread):
        return f"{_shown(value.p50)} / {_shown(value.p99)} ({_shown(value.count)})"
    if value is None:
        return "–"
    return f"{value:,}"
