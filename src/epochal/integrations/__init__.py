"""Ways in from other libraries: each file is one library's own interface over an Epochal run."""
