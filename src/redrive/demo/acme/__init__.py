"""Acme, a small company: `app` has its workflows, `tasks` their steps, `services` what Acme depends on."""
