"""Asks a model exact questions before the training begins; `preflight.py` is the way in."""
