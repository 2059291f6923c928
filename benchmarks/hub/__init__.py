"""Measures of the hub: how much it takes in, and what survives when processes are killed."""
