"""Sends runs to a hub, and fetches them from one."""
