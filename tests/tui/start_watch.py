"""Starts ``epochal watch`` with this script's arguments, and ends as the command line does."""

from __future__ import annotations

import argparse
import sys

from epochal.cli import watch
from epochal.errors import EpochalError


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir")
    watch.configure(parser)
    try:
        return watch.run(parser.parse_args())
    except KeyboardInterrupt:
        return 130
    except EpochalError as error:
        sys.stderr.write(f"epochal: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
