"""Clients of other processes that make decisions."""
