"""Checkpoints: a model in a file, a whole training in a folder, and resuming from either."""
