"""Which node groups should grow, and by how much."""
