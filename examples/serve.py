"""A shop that can print labels only if a file named `paper` exists in the working directory.

redrive serve examples.serve:app --worker
"""

from __future__ import annotations

from pathlib import Path

from redrive import Redrive

app = Redrive()  # the settings name its database, so that `redrive key create` uses the same one


@app.task(max_attempts=1)
def label(order: int) -> str:
    if not Path("paper").exists():
        raise LookupError(f"order {order}: the printer has no paper")
    return f"label {order}"
