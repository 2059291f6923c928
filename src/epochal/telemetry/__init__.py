"""Readings of the machine: host, process, GPUs, allocator. What is absent is ``None``, never 0."""
