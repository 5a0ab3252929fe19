"""Reserves room, announced through a webhook, before pods exist."""
