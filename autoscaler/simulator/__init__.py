"""A cluster and a cloud to try the autoscaler on: in memory, on the system's clock or a virtual one."""
