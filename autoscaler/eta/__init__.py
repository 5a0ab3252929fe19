"""Estimates when pods will be ready, and how much capacity the cluster has left."""
