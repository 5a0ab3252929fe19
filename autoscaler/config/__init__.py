"""Options of the autoscaler: one frozen tree, the flags that fill it, and the version presets."""
