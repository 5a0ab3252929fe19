"""The load generator: pods for trying out a cluster."""
