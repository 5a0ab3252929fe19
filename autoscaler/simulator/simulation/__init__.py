"""`autoscaler simulate`: simulates days in seconds, and reports their costs and the waiting times of pods."""
