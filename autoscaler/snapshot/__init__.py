"""The cluster at one moment: an immutable view, its NumPy columns, and trials that are undone on exit."""
