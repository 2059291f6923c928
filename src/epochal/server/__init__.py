"""The server of the page: HTTP, event streams, the built page, and the tools for coding agents."""
