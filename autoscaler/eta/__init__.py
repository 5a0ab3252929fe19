"""Pod start estimates, and the remaining capacity of the cluster."""
