"""Samples: pictures, tables, sounds, videos and files that a run keeps beside its journal."""
