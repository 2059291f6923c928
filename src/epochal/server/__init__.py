"""The HTTP server: results of the store, and a stream of new records."""
