"""The keys of the app, as its help lists them."""

from __future__ import annotations

from rich.text import Text

from epochal.tui.glyphs import Glyphs
from epochal.tui.lines import fit, heading

HELP: tuple[tuple[str, str, str], ...] = (
    ("Go", "1-6  Tab", "overview charts system log text config"),
    ("Go", "up down", "the run before, the run after"),
    ("Go", "r", "the list of runs, on and off"),
    ("Go", "/", "filter runs; in charts: series"),
    ("Go", "Esc", "back: from a large chart, a filter, a zoom"),
    ("Go", "q", "leave; what is watched goes on"),
    ("Charts", "+ -  0", "closer, wider, the whole run"),
    ("Charts", "left right", "earlier, later; the end is followed"),
    ("Charts", "s", "smoothing: none, 0.6, 0.9, 0.97"),
    ("Charts", "l  o", "logarithmic y axis; leave outliers out"),
    ("Charts", "x", "along steps, epochs, tokens, clock, time"),
    ("Charts", "[ ]", "another series in the large chart"),
    ("Charts", "Enter", "in charts: the chosen one alone"),
    ("Charts", "c  C", "compare with this run; with none"),
    ("View", "j k  PgUp PgDn", "scroll; g and G go to the ends"),
    ("View", "p  Space", "hold the picture; nothing is lost"),
    ("View", "Ctrl-L", "draw everything anew"),
    ("Run", "X", "stop the training, saved if it saves; asks first"),
    ("Run", "Z", "suspend it, or let it go on; asks first"),
)
_FILTERS = (
    "A filter is a regular expression on project/name, or a query:",
    'config.lr < 3e-4 and status == "running"',
)


def help_lines(columns: int, rows: int, *, glyphs: Glyphs) -> list[Text]:
    """The keys in groups; titles and examples where there is room for them."""
    lines: list[Text] = []
    width = max(len(keys) for _, keys, _ in HELP)
    has_titles = rows >= len(HELP) + 6
    group = ""
    for name, keys, meaning in HELP:
        if has_titles and name != group:
            lines += [Text()] if group else []
            lines.append(heading(name, columns, glyphs=glyphs))
            group = name
        lines.append(fit(Text.assemble((f"{keys:<{width}}  ", "key"), meaning), columns))
    if len(lines) + len(_FILTERS) < rows:
        lines += [Text(), *(Text.assemble((text, "dim")) for text in _FILTERS)]
    return lines
