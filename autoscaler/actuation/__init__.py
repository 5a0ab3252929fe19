"""Effects: resizing groups, evicting pods, deleting nodes."""
