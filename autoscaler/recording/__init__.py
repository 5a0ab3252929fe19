"""Recordings of passes as files: the flight recorder, the anonymizer and the snapshot page."""
