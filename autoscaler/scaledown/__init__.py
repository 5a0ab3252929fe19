"""Which nodes are unneeded, and which of them are removed now."""
