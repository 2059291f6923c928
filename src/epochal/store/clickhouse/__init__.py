"""The store over a ClickHouse cluster: its tables are the truth, a folder is a working copy."""
