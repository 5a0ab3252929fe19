"""What people and machines see of the autoscaler: metrics, logs, events, status, web pages."""
