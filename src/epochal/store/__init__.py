"""Which runs there are, and one run: every reader asks a store and opens no file itself."""
