"""Writing to a stream that may be narrow in character set, closed, or gone with its terminal."""

from __future__ import annotations

from typing import TextIO

from epochal.settings import is_dumb_terminal

LONGEST_NAME = 60


def write_line(stream: TextIO | None, text: str) -> bool:
    """Write one text and its newline in a single call, then flush.

    False when nothing could be written: there is no stream, it is closed, or what it led to is
    gone. Characters that the stream cannot encode are replaced: a metric's name never stops a run.
    """
    if stream is None:
        return False
    line = text + "\n"
    try:
        try:
            stream.write(line)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(line.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except (OSError, ValueError):
        # A hang-up, a closed pipe, a closed file: no reason to end a training. The caller counts.
        return False
    return True


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream leads to a terminal; a closed one does not."""
    if stream is None:
        return False
    try:
        return stream.isatty()
    except (AttributeError, OSError, ValueError):
        return False


def obeys_control_codes(stream: TextIO | None) -> bool:
    """Whether bold text and a line that is redrawn may be sent to this stream.

    False for pipes, files, notebooks and TERM=dumb.
    """
    return is_terminal(stream) and not is_dumb_terminal()


def printable(text: str, *, longest: int = LONGEST_NAME) -> str:
    """Make a name safe inside a line: no control characters, at most ``longest`` characters."""
    if not text.isprintable():
        text = "".join(
            c if c.isprintable() else c.encode("unicode_escape").decode("ascii")
            for c in text[: longest + 1]
        )
    return text if len(text) <= longest else text[: longest - 1] + "…"
