"""Metrics: names, help, and how a pass feeds them."""
