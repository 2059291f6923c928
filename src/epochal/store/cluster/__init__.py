"""The catalog of many machines: rows in PostgreSQL, parts and blobs in a bucket."""
