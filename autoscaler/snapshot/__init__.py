"""The cluster at one moment: an immutable view, its NumPy columns, and what-if changes undone on exit."""
