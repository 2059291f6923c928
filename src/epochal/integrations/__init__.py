"""Other libraries' own interfaces over a run: frameworks, and ``SummaryWriter``."""
