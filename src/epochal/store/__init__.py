"""Answers questions about runs; whatever shows or exports a run asks here and nowhere else."""
