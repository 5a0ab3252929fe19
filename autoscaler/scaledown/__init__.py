"""Which nodes nobody needs, and which of them go now."""
