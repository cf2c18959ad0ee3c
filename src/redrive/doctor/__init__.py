"""The doctor: is the database well, and is the work on it? What it looks at, what it found, and what to do.

    report = await examine(app.database)
    print(report)

It reads only. What is observed is judged without further looks, so that a judgement can be tried by itself.
"""

from __future__ import annotations

from redrive.doctor.examination import examine
from redrive.doctor.finding import Finding, Report, State
from redrive.doctor.limits import Limits

__all__ = ["Finding", "Limits", "Report", "State", "examine"]
