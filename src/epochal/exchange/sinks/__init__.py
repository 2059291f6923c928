"""Forwards a run's records to other trackers and to files that other programs read."""
