"""The measurements of a scenario, and its errors."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    name: str
    acknowledged: int = 0
    effects: int = 0
    repeated: int = 0
    findings: list[str] = field(default_factory=list)

    def tell(self, line: str) -> None:
        print(f"  {line}", flush=True)

    def find(self, finding: str) -> None:
        self.findings.append(finding)
        self.tell(f"FINDING: {finding}")

    def require(self, seconds: float, limit: float, what: str) -> None:
        if seconds > limit:
            self.find(f"{what} took {seconds:.1f} s, more than {limit:g} s")

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.acknowledged:,} acknowledged runs, {self.effects:,} effects, "
            f"{self.repeated} of them repeated under the same key, {len(self.findings)} findings"
        )
