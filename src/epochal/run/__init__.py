"""Starting, logging to and finishing a run."""
