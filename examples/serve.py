"""A shop whose labels cannot be printed until there is a file named paper in the working directory.

redrive serve examples.serve:app --worker
"""

from __future__ import annotations

from pathlib import Path

from redrive import Redrive

app = Redrive()  # its database is that of the settings, where `redrive key create` makes keys, too


@app.task(max_attempts=1)
def label(order: int) -> str:
    if not Path("paper").exists():
        raise LookupError(f"order {order}: the printer has no paper")
    return f"label {order}"
