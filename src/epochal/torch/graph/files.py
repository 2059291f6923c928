"""Text files that appear complete or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_text(path: str | Path, text: str) -> None:
    """Write a file under another name, then give it its own; makes the folders on the way."""
    target = Path(path).expanduser()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8", newline="")
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename == str(temporary):
            raise type(error)(error.errno, error.strerror, str(target)) from None
        raise
