"""The page that people see, built from ``web/`` into one file."""
