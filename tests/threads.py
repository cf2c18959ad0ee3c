"""The threads in which `app.sync` executes its work."""

from __future__ import annotations

import threading


def background_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "redrive-sync"}
