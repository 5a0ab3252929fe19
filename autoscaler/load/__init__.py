"""The load generator: creates pods to test a cluster."""
