"""The application that the browser tests serve: `redrive serve tests.browser.world:app`."""

from __future__ import annotations

from importlib import import_module

from tests.browser.elsewhere import install
from tests.browser.site import quick_passwords

from redrive import Redrive

install()

app: Redrive = import_module("acme.work").app
app.passwords = quick_passwords()
