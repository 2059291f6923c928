"""Starts ``epochal watch`` with this script's arguments, and ends as the command line does."""

from __future__ import annotations

import sys

from epochal.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["watch", *sys.argv[1:]]))
