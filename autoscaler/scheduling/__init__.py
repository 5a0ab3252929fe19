"""Would kube-scheduler place this pod on that node, and if not, why."""
