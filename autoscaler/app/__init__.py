"""Creates and connects all parts, for the daemon and for offline commands."""
