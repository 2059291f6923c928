"""Answers browsers: the store's answers over HTTP, and what is new as it is written."""
