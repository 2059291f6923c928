"""Sends runs to a hub, and fetches them from one: the protocol, the client, the shipper."""
