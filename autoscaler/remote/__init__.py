"""Decisions taken by other processes."""
