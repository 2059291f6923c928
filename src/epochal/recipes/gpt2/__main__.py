"""``python -m epochal.recipes.gpt2``."""

import sys

from epochal.recipes.gpt2.command import main

if __name__ == "__main__":
    sys.exit(main())
