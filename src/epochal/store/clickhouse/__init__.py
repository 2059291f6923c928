"""The store over ClickHouse, for teams whose runs no longer fit one machine; see ``schema``."""
