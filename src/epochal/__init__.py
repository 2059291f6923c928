"""Epochal watches a training run."""

__version__ = "0.1.0"
