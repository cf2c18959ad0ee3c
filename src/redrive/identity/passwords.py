"""Passwords, hashed with argon2id on two threads. Hashing is deliberately slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from redrive.errors import InvalidValueError, UnavailableError
from redrive.policy.credential import checked_password

T = TypeVar("T")

MAX_CONCURRENT = 2
MAX_WAITING = 64
"""More waiting sign-ins are rejected, so that a flood doesn't block sign-ins forever."""


class Passwords:
    """Hashes and verifies passwords. `hasher` defaults to an argon2.PasswordHasher without arguments."""

    def __init__(self, hasher: Any = None) -> None:
        self._hasher = hasher
        self._dummy_hash: str | None = None
        self._threads = ThreadPoolExecutor(MAX_CONCURRENT, "redrive-password")
        self._waiting = 0

    def __repr__(self) -> str:
        return "Passwords()"

    async def hash(self, password: str) -> str:
        text = checked_password(password)
        return await self._run(lambda: str(self._argon().hash(text)))

    async def verify(self, stored: str | None, password: str) -> bool:
        """Check a password against its hash. Takes the same time if no hash is stored."""
        try:
            text = checked_password(password)
        except InvalidValueError:
            return False
        return await self._run(lambda: self._verify(stored, text))

    def is_outdated(self, stored: str) -> bool:
        """Return whether the hash was created with weaker parameters than the current ones."""
        return bool(self._argon().check_needs_rehash(stored))

    def _verify(self, stored: str | None, text: str) -> bool:
        from argon2.exceptions import InvalidHashError, VerificationError

        if self._dummy_hash is None:  # for every user, so that timing doesn't reveal whether the user exists
            self._dummy_hash = str(self._argon().hash("nobody has this password"))
        try:
            return bool(self._argon().verify(stored or self._dummy_hash, text)) and stored is not None
        except (VerificationError, InvalidHashError):
            return False

    async def _run(self, work: Callable[[], T]) -> T:
        if self._waiting >= MAX_WAITING:
            raise UnavailableError(
                "passwords",
                "too many sign-ins at the moment; try again in a few seconds",
                retry_after=2.0,
            )
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= 1

    def _argon(self) -> Any:
        if self._hasher is None:
            try:
                from argon2 import PasswordHasher
            except ImportError:
                raise InvalidValueError(
                    "passwords need argon2-cffi, which is not installed. Run pip install 'redrive[server]'"
                ) from None
            self._hasher = PasswordHasher()
        return self._hasher
