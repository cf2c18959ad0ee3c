"""The threads in which `app.sync` has its work done."""

from __future__ import annotations

import threading


def background_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "redrive-sync"}
