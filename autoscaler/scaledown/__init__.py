"""Which nodes nobody needs."""
