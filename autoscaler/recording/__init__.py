"""Records passes in files: the flight recorder, the anonymizer and the snapshot page."""
