"""The sinks: one file each, with its options; ``registry.py`` finds them here."""
