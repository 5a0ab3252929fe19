"""Pause pods that keep room free, by cron policy."""
