"""Text as terminals count it: lines of styled spans, cut and filled to columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size


class Span(NamedTuple):
    """A stretch of text in one style; ``paint.STYLES`` has the styles."""

    text: str
    style: str = ""


Line = tuple[Span, ...]
EMPTY: Line = ()


def line(*parts: str | Span | tuple[str, str]) -> Line:
    """A line of plain texts and of (text, style) pairs."""
    return tuple(Span(part) if isinstance(part, str) else Span(*part) for part in parts)


def printable(text: str) -> str:
    """A text that moves no cursor and changes no colour: control characters are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c == "\t" else _escape(c) for c in text)


def width(spans: Iterable[Span]) -> int:
    """How many columns a line takes."""
    return sum(cell_len(span.text) for span in spans)


def clip_text(text: str, columns: int, *, ellipsis: str = "…") -> str:
    """A text of at most so many columns; one that is cut ends in an ellipsis."""
    if cell_len(text) <= columns:
        return text
    if columns <= len(ellipsis):
        return ellipsis[: max(columns, 0)]
    return set_cell_size(text, columns - len(ellipsis)).rstrip() + ellipsis


def clip(spans: Line, columns: int, *, ellipsis: str = "…") -> Line:
    """A line of at most so many columns; one that is cut ends in an ellipsis."""
    if width(spans) <= columns:
        return spans
    kept: list[Span] = []
    left = columns
    for span in spans:
        taken = cell_len(span.text)
        if taken >= left:
            # Something always follows or is cut here: the whole line was too wide.
            kept.append(Span(_cut(span.text, left, ellipsis), span.style))
            break
        kept.append(span)
        left -= taken
    return tuple(kept)


def fit(spans: Line, columns: int, *, ellipsis: str = "…") -> Line:
    """A line of exactly so many columns."""
    clipped = clip(spans, columns, ellipsis=ellipsis)
    missing = columns - width(clipped)
    return (*clipped, Span(" " * missing)) if missing > 0 else clipped


def spread(left: Line, right: Line, columns: int) -> Line:
    """Two texts at the two ends of a line; the left one gives way."""
    right = clip(right, columns)
    gap = (Span(" "),) if right and width(right) < columns else ()
    return (*fit(left, columns - width(right) - len(gap)), *gap, *right)


def block(lines: Sequence[Line], *, columns: int, rows: int) -> list[Line]:
    """Lines as a rectangle: cut and filled to exactly so many columns and rows."""
    kept = [fit(one, columns) for one in lines[:rows]]
    return kept + [fit(EMPTY, columns)] * (rows - len(kept))


def beside(*blocks: Sequence[Line], between: Span) -> list[Line]:
    """Rectangles of equal height next to each other."""
    shown = [one for one in blocks if one]
    joined = []
    for row in zip(*shown, strict=True):
        spans: list[Span] = []
        for index, part in enumerate(row):
            if index:
                spans.append(between)
            spans.extend(part)
        joined.append(tuple(spans))
    return joined


def wrap(text: str, columns: int) -> list[str]:
    """A text as lines of at most so many columns, broken between words where that is possible."""
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


def plain(spans: Iterable[Span]) -> str:
    """A line without its styles."""
    return "".join(span.text for span in spans)


def _cut(text: str, columns: int, ellipsis: str) -> str:
    if columns <= len(ellipsis):
        return ellipsis[:columns]
    return set_cell_size(text, columns - len(ellipsis)) + ellipsis


def _escape(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
