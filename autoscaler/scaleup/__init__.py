"""Decides which node groups grow, and by how much."""
