"""Looks at a run's records as they come and says what is wrong, with evidence and advice."""
