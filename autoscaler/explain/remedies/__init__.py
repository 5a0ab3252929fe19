"""Finds what would have to change for another decision."""
