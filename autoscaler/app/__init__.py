"""Where everything is made and wired, for the daemon and for every offline run alike."""
