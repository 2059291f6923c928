"""Text files that appear complete or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_text(path: str | Path, text: str) -> None:
    """Write a file under another name, then give it its own."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="")
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
