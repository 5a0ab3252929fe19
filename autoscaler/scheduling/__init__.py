"""Decides whether kube-scheduler would place a pod on a node, and if not, why."""
