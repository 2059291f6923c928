"""The store over runs of another machine: a hub, a server, or a folder behind ssh."""
