"""Trainings that ship with the package: to watch, to read, and to start from."""
