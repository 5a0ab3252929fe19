"""Runs a cluster in this process: an API server and simulated controllers."""
