"""A Kubernetes node autoscaler: decides like Cluster Autoscaler, faster, and says why."""
