"""Entry point of ``python -m epochal.wandb``."""

import sys

from epochal.wandb.launcher import main

if __name__ == "__main__":
    sys.exit(main())
