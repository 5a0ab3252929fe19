"""A cluster in this process: an API server and the actors that live in it."""
