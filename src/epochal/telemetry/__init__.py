"""The machine, as readings: host, process, GPUs, allocator. Absent is ``None``, never 0."""
