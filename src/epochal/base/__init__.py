"""What every room uses: the fault boundary, plugins, files that appear whole, and hooks."""
