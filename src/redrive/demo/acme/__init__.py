"""Acme: a small company. Orders, accounts, a supplier's feed, reports."""
