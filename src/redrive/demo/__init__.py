"""The demo: a small living company on real parts, and drills of what may happen to it.

Acme's own code is in `acme`; it is copied into the demo's folder and run from there, as anybody's code would
be. What it depends on is in `world`: services that can be broken and repaired.
"""
