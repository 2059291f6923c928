"""The importers: one file per format, which has its name; ``registry.py`` finds them here."""
