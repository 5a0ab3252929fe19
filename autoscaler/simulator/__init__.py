"""Runs the autoscaler on clusters and clouds in memory, on the system's clock or a virtual one."""
