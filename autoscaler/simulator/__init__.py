"""Clusters and clouds to run the autoscaler on: in memory, on the system's clock or a virtual one."""
