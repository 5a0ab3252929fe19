"""The cheapest combination of node groups for a backlog of pods."""
