"""The characters that charts are drawn with: Unicode, or ASCII for terminals without it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of characters; each takes one column.

    With ``has_braille`` a cell has 2 by 4 dots. Without, it has 1 by 2, drawn with the characters
    of ``dots`` (upper, lower, both), and with those of ``dots_behind`` behind another curve.
    """

    has_braille: bool = True
    dots: str = ""
    dots_behind: str = ""
    levels: str = "▁▂▃▄▅▆▇█"
    filled: str = "█"
    empty: str = "░"
    progress: str = "━"
    progress_left: str = "─"
    running: str = "●"
    ended: str = "○"
    mark: str = "◆"
    nonfinite: str = "×"
    pointer: str = "▲"
    up: str = "↗"
    down: str = "↘"
    level: str = "→"
    rule: str = "─"
    wall: str = "│"
    tick: str = "┤"
    corner: str = "└"
    foot: str = "┬"
    ellipsis: str = "…"
    legend: str = "━"
    chosen: str = "▸"


UNICODE = Glyphs()
ASCII = Glyphs(
    has_braille=False,
    dots="'.:",
    dots_behind="`,;",
    levels="._-=+*%#",
    filled="#",
    empty=".",
    progress="=",
    progress_left="-",
    running="*",
    ended="o",
    mark="E",
    nonfinite="x",
    pointer="^",
    up="/",
    down="\\",
    level="-",
    rule="-",
    wall="|",
    tick="+",
    corner="+",
    foot="+",
    ellipsis="~",
    legend="-",
    chosen=">",
)


def glyphs_for(encoding: str | None, *, ascii_only: bool = False) -> Glyphs:
    """The characters that a stream of this encoding can carry."""
    if ascii_only or (encoding or "").lower().replace("-", "") not in ("utf8", "utf16", "utf32"):
        return ASCII
    return UNICODE
