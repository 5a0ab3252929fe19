"""Deletes pods whose deadline annotation has passed."""
