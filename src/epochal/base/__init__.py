"""What every room uses: the fault boundary, plugins, atomic files, and hooks."""
