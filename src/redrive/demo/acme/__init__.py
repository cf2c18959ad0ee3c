"""Acme, a small company: workflows in `app`, their steps in `tasks`, the services they call in `services`."""
