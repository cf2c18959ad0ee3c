"""How long things take. The scene puts its own time in place of the machine's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

take: Callable[[float], Awaitable[None]] = asyncio.sleep
