"""Reserves room for pods that are announced through a webhook and do not exist yet."""
