"""The characters that pictures are made of: those of Unicode, and those that any terminal has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of characters; every one of them takes one column.

    ``has_braille`` tells whether a cell has 2 by 4 dots, or 1 by 2 of the characters in ``dots``
    (upper, lower, both), with ``dots_behind`` for what is drawn behind.
    """

    has_braille: bool
    dots: str
    dots_behind: str
    levels: str
    filled: str
    empty: str
    progress: str
    progress_left: str
    running: str
    ended: str
    mark: str
    nonfinite: str
    pointer: str
    up: str
    down: str
    level: str
    rule: str
    wall: str
    tick: str
    corner: str
    foot: str
    ellipsis: str
    legend: str
    chosen: str


UNICODE = Glyphs(
    has_braille=True,
    dots="",
    dots_behind="",
    levels="▁▂▃▄▅▆▇█",
    filled="█",
    empty="░",
    progress="━",
    progress_left="─",
    running="●",
    ended="○",
    mark="◆",
    nonfinite="×",
    pointer="▲",
    up="↗",
    down="↘",
    level="→",
    rule="─",
    wall="│",
    tick="┤",
    corner="└",
    foot="┬",
    ellipsis="…",
    legend="━",
    chosen="▸",
)
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
