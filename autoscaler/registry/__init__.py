"""What the autoscaler remembers between passes."""
