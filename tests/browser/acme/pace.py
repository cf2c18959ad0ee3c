"""Durations of tasks. The scene replaces the machine's time by its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

take: Callable[[float], Awaitable[None]] = asyncio.sleep
