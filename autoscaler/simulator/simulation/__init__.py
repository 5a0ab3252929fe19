"""`autoscaler simulate`: days of cluster life in seconds, and a report of what they cost and how long pods waited."""
