"""Kubernetes objects, decoded once into frozen structs that hold only what the autoscaler uses."""
