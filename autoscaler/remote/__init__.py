"""Clients of other processes that take decisions."""
