"""Writes the tables of sinks and options in docs/reference/sinks.md from their declarations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from epochal.media.files import PLOTLY, TABLE
from epochal.sinks.registry import own_sinks
from epochal.sinks.sink import Sink, is_held

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "sinks.md"
START = "<!-- sinks: printed by tools/sinks_table.py (make docs) -->\n"
END = "<!-- end of sinks -->\n"
# Rows of the table of what targets can hold; a row of several contents names those that are held.
CONTENTS = {
    "numbers of steps": ("metrics",),
    "telemetry": ("gpu",),
    "histograms": ("histogram",),
    "texts": ("text",),
    "images": tuple(
        f"blob:image/{name}" for name in ("png", "jpeg", "gif", "bmp", "webp", "svg+xml")
    ),
    "audio": tuple(f"blob:audio/{name}" for name in ("wav", "flac", "mpeg", "ogg")),
    "video": tuple(f"blob:video/{name}" for name in ("mp4", "webm", "ogg")),
    "HTML pages": ("blob:text/html",),
    "tables": (f"blob:{TABLE}",),
    "Plotly figures": (f"blob:{PLOTLY}",),
    "arrays (npy, npz)": ("file:application/x-npy",),
    "files of `run.log_file`": ("file:application/octet-stream",),
    "model graphs": ("graph",),
    "configuration": ("option",),
    "metric definitions": ("define",),
    "summary values": ("summary",),
    "alerts": ("event:alert",),
    "other events": ("event:checkpoint",),
    "messages": ("message",),
    "findings": ("finding",),
}


def tables() -> Iterator[str]:
    sinks = own_sinks().values()
    yield "| name | what it gets | needs |"
    yield "|---|---|---|"
    yield from (f"| `{sink.name}` | {sink.summary} | {needs(sink)} |" for sink in sinks)
    yield ""
    yield "What each target can hold:"
    yield ""
    yield "| | " + " | ".join(f"`{sink.name}`" for sink in sinks) + " |"
    yield "|---|" + "---|" * len(sinks)
    for name, contents in CONTENTS.items():
        marks = (held(sink, contents) for sink in sinks)
        yield f"| {name} | {' | '.join(marks)} |"
    yield ""
    yield "| option | meaning |"
    yield "|---|---|"
    for sink in sinks:
        for one in fields(sink.options):
            start = f"; enables `{sink.name}`" if one.metadata.get("starts_sink") else ""
            yield f"| `{one.name}` | {one.metadata.get('meaning', '')}{start} |"


def held(sink: type[Sink], contents: tuple[str, ...]) -> str:
    taken = [content for content in contents if is_held(sink.holds, content)]
    if not taken:
        return "–"
    formats = ", ".join(content.rpartition("/")[2].partition("+")[0] for content in taken)
    return "yes" if len(taken) == len(contents) else formats


def needs(sink: type[Sink]) -> str:
    return "–" if sink.extra is None else f"`pip install 'epochal[{sink.extra}]'`"


def with_tables(page: str) -> str:
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    text = "\n".join(tables())
    return f"{before}{START}\n{text}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
