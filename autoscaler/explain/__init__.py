"""Explains why a pod waits, a node stays or a node group was skipped, and what would change that."""
