"""Generates the pages and diagrams of the reference from the code."""
