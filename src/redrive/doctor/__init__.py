"""The doctor: checks a database and the work in it, and advises what to do.

    report = await examine(app)
    print(report)

It only reads. `examination` collects observations and the other modules judge them, so tests can judge any
observation without a database.
"""

from __future__ import annotations

from redrive.doctor.examination import examine
from redrive.doctor.finding import DoctorLimits, Finding, HealthReport, State
from redrive.model.finding import FindingCode

__all__ = ["DoctorLimits", "Finding", "FindingCode", "HealthReport", "State", "examine"]
