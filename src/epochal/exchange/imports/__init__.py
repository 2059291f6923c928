"""Reads other trackers' files as runs: each format is a member, ``foreign`` is the protocol."""
