"""Sealed journal parts: the same records as Parquet, small and read one column at a time."""
