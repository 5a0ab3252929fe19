"""What would have to change for a decision to turn out otherwise."""
