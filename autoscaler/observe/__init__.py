"""Shows people and machines the state of the autoscaler: metrics, logs, events, status, web pages."""
