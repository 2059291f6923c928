"""Messages by level: which are shown, and on which stream.

    level        shown by     stream
    QUIET    0   --quiet      errors only
    NORMAL   1   (default)    stdout
    VERBOSE  2   -v           stdout
    DEBUG    3   -vv          stderr
    TRACE    4   -vvv         stderr

Debug and trace use stderr because it shows at once where stdout is block-buffered (containers).
Training lines, blocks and progress are not messages: they go to stderr through ``console.printer``.

Every message function takes a text with ``%`` arguments, as ``logging`` does, or a callable that
returns the text (called with the arguments); when the level is off nothing is formatted or called::

    debug("rank %d | batch %.1f ms", rank, batch_ms)
    trace(lambda: f"norms: {collect_norms()}")

A message never raises: one that cannot be formatted is shown with its raw arguments.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, TextIO

from epochal.base.guard import attempt
from epochal.errors import UsageError
from epochal.records.values import shown_text
from epochal.settings import is_dumb_terminal, read_setting
from epochal.settings.kinds import VERBOSITY

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


Text = str | Callable[..., str]


class Verbosity(IntEnum):
    """The five levels of a process; each shows what the lower ones show."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2
    DEBUG = 3
    TRACE = 4


class LogVerbosity(IntEnum):
    """The four levels of ``TrainingRunLogger``: a scale around 0, its default.

    SILENT prints nothing, MINIMAL evaluations only, DEFAULT what the level of the process shows,
    VERBOSE also the state of GPUs and the files of datasets. At every level a run reports on stderr
    when records cannot be written. :class:`Verbosity` is the scale of the process and starts at 0.

    Example:
        epochal.TrainingRunLogger("training.json", verbosity=epochal.LogVerbosity.VERBOSE)
    """

    SILENT = -2
    MINIMAL = -1
    DEFAULT = 0
    VERBOSE = 1

    def to_verbosity(self) -> Verbosity:
        """The process level that shows as much; MINIMAL's evaluations come on top of it."""
        if self is LogVerbosity.VERBOSE:
            return Verbosity.VERBOSE
        return Verbosity.NORMAL if self is LogVerbosity.DEFAULT else Verbosity.QUIET

    @property
    def shows_eval(self) -> bool:
        """Whether evaluation lines are shown at this level; true for all but SILENT."""
        return self >= LogVerbosity.MINIMAL


_UNREAD: Final = sys.maxsize


class _ProcessLevel:
    """The level of this process.

    This is module state, an exception in this package. Verbosity belongs to the process, like its
    streams, and messages come from code at any depth.
    """

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level: int = _UNREAD


_process = _ProcessLevel()


def set_verbosity(level: Verbosity | LogVerbosity | int | str) -> None:
    """Set the level of this process; wins over the settings. Accepts 0-4 or a level's name.

    Args:
        level: A level, its name, or a number from 0 to 4.
    """
    _process.level = as_verbosity(level)


def verbosity() -> Verbosity:
    """The level of this process; the settings are read on the first call and never again."""
    if _process.level == _UNREAD:
        _process.level = as_verbosity(read_setting("verbosity"))
    return Verbosity(_process.level)


def enabled(level: Verbosity) -> bool:
    """Whether messages of this level are shown; for a level that is off, one comparison.

    Args:
        level: The level.
    """
    if level > _process.level:
        return False
    return _process.level != _UNREAD or level <= verbosity()


def as_verbosity(level: Verbosity | LogVerbosity | int | str) -> Verbosity:
    """Check a level given in code; a wrong one raises ``UsageError``."""
    if isinstance(level, LogVerbosity):
        return level.to_verbosity()
    try:
        return Verbosity[VERBOSITY.checked(level).upper()]
    except ValueError as error:
        raise UsageError(f"level={level!r} {error}") from error


def stream_for(level: Verbosity) -> TextIO:
    """Where messages of this level go."""
    return sys.stderr if level >= Verbosity.DEBUG else sys.stdout


def msg(text: Text | Verbosity, *args: Any, level: Verbosity = Verbosity.NORMAL) -> None:
    """Print a message at a level, which may also come first: ``msg(Verbosity.VERBOSE, "x")``.

    Args:
        text: The message.
        args: Values for the placeholders of the text, as in `logging`.
        level: The level of the message.
    """
    if isinstance(text, Verbosity):
        level, text, args = text, args[0] if args else "", args[1:]
    if enabled(level):
        _say(text, args, level)


def verbose(text: Text, *args: object) -> None:
    """Say something at VERBOSE, on stdout.

    Args:
        text: The message.
        args: Values for the placeholders of the text, as in `logging`.
    """
    if enabled(Verbosity.VERBOSE):
        _say(text, args, Verbosity.VERBOSE)


def debug(text: Text, *args: object) -> None:
    """Say something at DEBUG, on stderr.

    Args:
        text: The message.
        args: Values for the placeholders of the text, as in `logging`.
    """
    if enabled(Verbosity.DEBUG):
        _say(text, args, Verbosity.DEBUG)


def trace(text: Text, *args: object) -> None:
    """Say something at TRACE, on stderr.

    Args:
        text: The message.
        args: Values for the placeholders of the text, as in `logging`.
    """
    if enabled(Verbosity.TRACE):
        _say(text, args, Verbosity.TRACE)


def error(text: Text, *args: object) -> None:
    """Say something on stderr whatever the level."""
    write_line(sys.stderr, render(text, args))


def render(text: Text, args: tuple[object, ...]) -> str:
    """Make the text of a message; without arguments a ``%`` in it stands for itself.

    One that cannot be made gives its format and arguments as they are.
    """
    if callable(text):
        made = attempt(lambda: str(text(*args)))[0]
    else:
        made = attempt(lambda: str(text) % args if args else str(text))[0]
    what = getattr(text, "__name__", text)
    return " ".join(map(shown_text, (what, *args))) if made is None else made


def _say(text: Text, args: tuple[object, ...], level: Verbosity) -> None:
    write_line(stream_for(level), render(text, args))
