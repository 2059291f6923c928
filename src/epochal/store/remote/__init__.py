"""The store over runs of another machine: a hub or a server."""
