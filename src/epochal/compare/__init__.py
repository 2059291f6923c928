"""Questions about several runs: groups, differences, importance, and why one is worse."""
