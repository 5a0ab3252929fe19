"""Keeps room free with pause pods, by cron policy."""
