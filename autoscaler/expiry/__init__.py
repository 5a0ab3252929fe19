"""Moving workloads off nodes that will be taken away at a known time."""
