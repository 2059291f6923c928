"""The training side: ``init``, ``log`` and the other calls of a run, from start to finish."""
