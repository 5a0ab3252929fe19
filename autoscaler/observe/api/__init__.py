"""What the JSON API answers."""
