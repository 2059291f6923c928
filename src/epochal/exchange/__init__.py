"""What leaves and enters as records: sinks to other trackers, imports from them, and media."""
