"""Lines of styled text, cut and filled to a number of columns."""

from __future__ import annotations

from rich.cells import cell_len, chop_cells
from rich.text import Text

from epochal.tui.glyphs import Glyphs


def printable(text: str) -> str:
    """Escape control characters, so that text from a run cannot steer the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c == "\t" else _escape(c) for c in text)


def clip(line: Text, columns: int) -> Text:
    """Cut a line to at most ``columns``; a line that is cut ends in an ellipsis."""
    if columns < 1:
        return Text()
    clipped = line.copy()
    clipped.truncate(columns, overflow="ellipsis")
    return clipped


def clip_text(text: str, columns: int) -> str:
    """Escape a plain text and cut it to at most ``columns``."""
    return clip(Text(printable(text)), columns).plain


def fit(line: Text, columns: int) -> Text:
    """Cut or fill a line to exactly ``columns``."""
    clipped = clip(line, columns)
    clipped.pad_right(columns - clipped.cell_len)
    return clipped


def spread(left: Text, right: Text, columns: int) -> Text:
    """Put two texts at the ends of a line; the left one is cut where they do not fit."""
    right = clip(right, columns)
    gap = 1 if right and right.cell_len < columns else 0
    return Text.assemble(fit(left, columns - right.cell_len - gap), " " * gap, right)


def wrap(text: str, columns: int) -> list[str]:
    """Break a text into lines of at most ``columns``, between words where that is possible."""
    wrapped: list[str] = []
    for paragraph in text.splitlines() or [""]:
        current = ""
        for word in printable(paragraph).split(" "):
            longer = f"{current} {word}" if current else word
            if cell_len(longer) <= columns:
                current = longer
                continue
            if current:
                wrapped.append(current)
            *whole, current = chop_cells(word, max(columns, 2)) or [""]
            wrapped.extend(whole)
        wrapped.append(current)
    return wrapped


def heading(text: str, columns: int, *, glyphs: Glyphs, remark: str = "") -> Text:
    """The title of a panel, with a rule to the end of the line."""
    title = Text.assemble(
        (printable(text), "title"), (f" {printable(remark)}" * bool(remark), "dim")
    )
    title = clip(title, columns)
    rest = columns - title.cell_len - 1
    return title.append(f" {glyphs.rule * rest}", "dim") if rest > 0 else title


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
