"""Capacity estimates, headroom and reservations: systems that share the daemon with the node loop."""
