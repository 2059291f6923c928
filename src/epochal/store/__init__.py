"""Reads runs: everything that shows or exports a run uses a store, and reads no file itself."""
