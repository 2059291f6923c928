"""The only module through which commands print: texts of runs cannot control the terminal.

Names, labels, configuration and messages come from files that anybody may have written. Printed as
they are, their control characters could move the cursor, write to the clipboard or hide text; here
they are shown escaped, ``\\x1b``. Our own colours are spans of a line, painted after that.

    say(text)        data, on stdout
    say_lines(lines) the same in pieces with styles, where stdout is a terminal
    say_json(value)  one JSON text on stdout
    said_json(value) the same where ``--json`` was given, and whether it was
    say_csv(rows)    rows with a header on stdout
    say_table(…)     a table that fits the terminal: the columns that may shrink give way
    remark(text)     a remark about the data, on stdout; ``--quiet`` and ``--json`` silence it
    hint(text)       the same on stderr, beside one value that scripts take from stdout
    complain(text)   a problem, on stderr
    confirm(question, yes=…) ask on stderr, and end the command without agreement

A lint rule keeps ``print`` out of the other files of this folder.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO

import click

from epochal.run.console.messages import Verbosity, enabled, msg

if TYPE_CHECKING:
    from rich.console import Console

# Pieces of text, each with the name of a style of ``THEME`` of ``cli/tui/text.py`` or an empty one.
Line = Sequence[tuple[str, str]]

# What is not plain ASCII and no line end; few of these are unsafe.
_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t]")
# Joiners: parts of words in some scripts, and of emoji.
_JOINERS = "\u200c\u200d"
_FORM = "epochal.form"


def choose_form(context: click.Context, form: str) -> None:
    """Keep what ``--json`` or ``--csv`` chose."""
    context.meta[_FORM] = form


def form() -> str:
    """What the running command prints: ``text``, ``json`` or ``csv``."""
    context = click.get_current_context(silent=True)
    return "text" if context is None else str(context.meta.get(_FORM, "text"))


def visible(text: str) -> str:
    """A text whose control characters are escaped; ends of lines and tabs stay."""

    def shown(found: re.Match[str]) -> str:
        is_safe = _is_safe(found[0])
        return found[0] if is_safe else found[0].encode("unicode_escape").decode("ascii")

    return _UNUSUAL.sub(shown, text)


def one_line(text: str) -> str:
    """The same without ends of lines, which could pass for further lines of ours."""
    if text.isascii() and text.isprintable():
        return text
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def say(text: str = "", *, flush: bool = False) -> None:
    """Print data; a line is written at once, so that lines of two threads do not mix."""
    sys.stdout.write(f"{visible(text)}\n")
    if flush:
        sys.stdout.flush()


def say_lines(lines: Iterable[Line]) -> None:
    """Print styled lines, in colours where stdout shows them; control characters are escaped."""
    _print_styled(lines, sys.stdout)


def say_json(value: Any) -> None:
    """Print one JSON text; dataclasses become objects, nan and infinities null."""
    from epochal.journal.line import encode_json

    # An escape sequence of JSON means the same character, and a terminal shows it as text.
    text = encode_json(value).decode()
    print(_UNUSUAL.sub(lambda c: c[0] if _is_safe(c[0]) else json.dumps(c[0])[1:-1], text))


def said_json(value: Any) -> bool:
    """Print a value as JSON where ``--json`` was given; whether it was."""
    if form() == "json":
        say_json(value)
    return form() == "json"


def say_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows for programs: as CSV with ``--csv``, else as JSON."""
    (say_csv if form() == "csv" else say_json)(rows)


def answer(data: Any, sentence: str) -> None:
    """Print what was done: the data with ``--json``, else a sentence."""
    if not said_json(data):
        remark(sentence)


def say_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows as CSV: every column that any row has, numbers with all their digits."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_csv_cell, columns))
    writer.writerows([_csv_cell(row.get(name)) for name in columns] for row in rows)
    say(text.getvalue().rstrip("\n"))


def _csv_cell(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    if isinstance(value, str):
        return value.replace("\0", "")  # which Python 3.10 does not write
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else value


def remark(text: str) -> None:
    """Print a remark about the output, unless ``--quiet`` or ``--json`` was given."""
    if form() != "json":
        msg("%s", visible(text))


def hint(text: str) -> None:
    """Print a remark on stderr, unless ``--quiet`` was given: stdout has the value alone."""
    if enabled(Verbosity.NORMAL):
        print(visible(text), file=sys.stderr, flush=True)


def complain(text: str, *, style: str = "") -> None:
    """Print a problem on stderr; ``style`` is a name of ``THEME`` of ``cli/tui/text.py``."""
    if style:
        _print_styled([[(text, style)]], sys.stderr)
    else:
        print(visible(text), file=sys.stderr, flush=True)


def confirm(question: str, *, yes: bool) -> None:
    """Ask on stderr, unless ``yes``; without agreement the command ends with exit code 2."""
    if not yes:
        print(f"{visible(question)} [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            remark("Nothing was changed.")
            click.get_current_context().exit(2)


class VisibleStream:
    """A text stream to a terminal for what writes to files elsewhere: escapes what it is given."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text, escaped; as many characters as were given count as written."""
        self._stream.write(visible(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _print_styled(lines: Iterable[Line], stream: TextIO) -> None:
    console = _console(stream)
    for line in lines:
        clean = [(one_line(text), style) for text, style in line]
        if console is None:
            print("".join(text for text, _ in clean).rstrip(), file=stream)
        else:
            from rich.text import Text

            console.print(Text.assemble(*clean), soft_wrap=True)


def _console(stream: TextIO) -> Console | None:
    """What prints styles to a terminal; None where there are none, or no ``rich``."""
    if find_spec("rich") is None:
        return None
    from epochal.cli.tui.text import console_for

    console = console_for(stream)
    return console if console.is_terminal and not console.is_dumb_terminal else None


def _is_safe(character: str) -> bool:
    if character.isprintable() or character in _JOINERS:
        return True
    # Spaces of other widths; lone surrogates are left to the stream, which escapes them.
    return unicodedata.category(character) in ("Zs", "Cs")


_GAP = 2
_PLAIN_COLUMNS = 80
_TEXT_COLUMNS, _NARROWEST_TEXT = 96, 30
_UNLIMITED = 10_000
_NARROWEST = 8


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    shrink: Sequence[int] = (),
    right: Sequence[int] = (),
) -> str:
    """Lay out rows under a header; columns in ``right`` are aligned to the right.

    With ``width``, columns in ``shrink`` are cut, the widest first, until a line fits.
    """
    cells = [[one_line(cell) for cell in row] for row in (header, *rows)]
    sizes = [[_columns_of(cell) for cell in row] for row in cells]
    widths = [max(column) for column in zip(*sizes, strict=True)]
    if width is not None:
        _shrink(widths, shrink, width)
    is_right = [index in right for index in range(len(header))]
    lines = [
        (" " * _GAP).join(map(_fit, row, of_row, widths, is_right)).rstrip()
        for row, of_row in zip(cells, sizes, strict=True)
    ]
    return "\n".join(lines)


def say_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    shrink: Sequence[int] = (),
    right: Sequence[int] = (),
) -> None:
    """Print a table that fits the terminal."""
    say(table(header, rows, width=terminal_columns(), shrink=shrink, right=right))


def _shrink(widths: list[int], shrink: Sequence[int], width: int) -> None:
    for index in shrink:
        widths[index] = min(widths[index], width)
    while sum(widths) + _GAP * (len(widths) - 1) > width:
        widest = max(shrink, key=lambda index: widths[index], default=None)
        if widest is None or widths[widest] <= _NARROWEST:
            break
        widths[widest] -= 1


def terminal_columns() -> int:
    """How wide a table may be: as wide as the terminal; in a pipe or a file what COLUMNS says.

    Without COLUMNS nothing is cut there.
    """
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS", "").isdecimal():
        return _UNLIMITED
    return shutil.get_terminal_size((_PLAIN_COLUMNS, 0)).columns


def text_columns() -> int:
    """How wide sentences are: as the terminal, or as COLUMNS says in a pipe or a file."""
    return max(shutil.get_terminal_size((_TEXT_COLUMNS, 0)).columns, _NARROWEST_TEXT)


def _columns_of(text: str) -> int:
    """How many terminal columns a text takes: East Asian wide characters two, marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _fit(text: str, size: int, columns: int, right: bool) -> str:
    if size > columns:
        # A name often differs at its end from others, as dates and numbers do; a text begins.
        tail = text[-(columns // 2) :] if text.isascii() and " " not in text else ""
        ends = itertools.accumulate(map(_columns_of, text))
        shown = list(itertools.takewhile(lambda end: end < columns - _columns_of(tail), ends))
        text = f"{text[: len(shown)]}…{tail}"
        size = _columns_of(text)
    space = " " * (columns - size)
    return space + text if right else text + space
