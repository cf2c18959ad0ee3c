"""The application that the browser tests serve: `redrive serve tests.browser.world:app`."""

from __future__ import annotations

from importlib import import_module

from argon2 import PasswordHasher
from tests.browser.elsewhere import install

from redrive import Redrive
from redrive.engine.passwords import Passwords

install()

app: Redrive = import_module("acme.work").app
# Hashing is slow on purpose; here it would only make tests slow.
app.passwords = Passwords(PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
