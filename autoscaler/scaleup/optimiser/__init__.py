"""Finds the cheapest combination of node groups for all pending pods."""
