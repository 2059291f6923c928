"""``python -m epochal.companion RUN_FOLDER JSON``."""

import sys

from epochal.companion.process import main

if __name__ == "__main__":
    sys.exit(main())
