"""Writes the pages and drawings that follow from the code."""
