"""Explains why a pod waits, why a node stays, or why a node group was skipped, and what would change that."""
