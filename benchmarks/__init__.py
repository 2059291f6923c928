"""What logging costs, ours beside the peers', each in its own environment, in one run."""
