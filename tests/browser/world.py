"""The application that the browser tests serve: `redrive serve tests.browser.world:app`."""

from __future__ import annotations

from importlib import import_module

from tests.browser.site import quick_passwords
from tests.browser.stable_paths import install

from redrive import Redrive
from redrive.parts import parts_of

install()

app: Redrive = import_module("acme.work").app
parts_of(app).declared.passwords = quick_passwords()
