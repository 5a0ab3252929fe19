"""Room reserved through a webhook before its pods exist."""
