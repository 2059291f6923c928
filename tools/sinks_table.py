"""Writes the tables of sinks and options in docs/guides/trackers.md from their declarations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from epochal.sinks.registry import own_sinks
from epochal.sinks.sink import Sink

PAGE = Path(__file__).parent.parent / "docs" / "guides" / "trackers.md"
START = "<!-- sinks: printed by tools/sinks_table.py (make docs) -->\n"
END = "<!-- end of sinks -->\n"


def tables() -> Iterator[str]:
    sinks = own_sinks().values()
    yield "| name | what it gets | needs |"
    yield "|---|---|---|"
    yield from (f"| `{sink.name}` | {sink.summary} | {needs(sink)} |" for sink in sinks)
    yield ""
    yield "| option | meaning |"
    yield "|---|---|"
    for sink in sinks:
        for one in fields(sink.options):
            start = f"; enables `{sink.name}`" if one.metadata.get("starts_sink") else ""
            yield f"| `{one.name}` | {one.metadata.get('meaning', '')}{start} |"


def needs(sink: type[Sink]) -> str:
    return "–" if sink.extra is None else f"`pip install 'epochal[{sink.extra}]'`"


def with_tables(page: str) -> str:
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    text = "\n".join(tables())
    return f"{before}{START}\n{text}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
