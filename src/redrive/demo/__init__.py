"""The demo: a small company at work on real parts, and drills that stage failures on it.

The company's own code is in `acme`. The demo copies it into its folder and runs it from there, like the code
of any user. `world` plays the services that Acme depends on, which can be broken and repaired.
"""
