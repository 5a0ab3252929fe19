"""The only package that speaks to the API server."""
