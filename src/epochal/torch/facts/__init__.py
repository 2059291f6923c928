"""Facts of a training that are recorded without being asked."""
