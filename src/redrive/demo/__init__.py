"""The demo: a small company that runs on Redrive, and drills that cause failures and check the outcome.

The company's code is in `acme`. The demo copies it into its folder and runs it from there, like any user's
code. `world` simulates the services that Acme depends on; you can break and repair them.
"""
