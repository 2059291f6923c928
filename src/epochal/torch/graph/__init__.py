"""Graphs of modules that observe themselves: building, recording, drawing and timing them."""
