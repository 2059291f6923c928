"""The one table of RESULTS.md that `python -m benchmarks --write` replaces."""

from __future__ import annotations

from benchmarks.__main__ import COLUMNS, RESULTS, trackers, with_table
from benchmarks.outcome import Outcome, Table


def test_a_whole_run_replaces_the_table_and_nothing_else() -> None:
    titles: dict[str, dict[str, Table]] = {}
    for measure, title, _, _ in COLUMNS:
        rows = {"epochal": (1.0, 2.0, 3.0, 4.0), "late": (None,)}
        titles.setdefault(measure, {})[title] = Table(title, ("a", "b", "c", "d"), rows, {})
    outcomes = {name: Outcome(name, "", tuple(tables.values())) for name, tables in titles.items()}
    page = RESULTS.read_text(encoding="utf-8")

    written = with_table(page, trackers(outcomes) + "\n")

    rows_written = [line.split("|")[1:-1] for line in written.splitlines() if "| epochal" in line]
    assert [cell.strip() for cell in rows_written[0]] == [
        "epochal",
        "1",
        "4",
        "1",
        "1",
        "2",
        "1",
        "2",
    ]
    assert "| trackio" not in written
    assert written.partition("## Beside a training")[2] == page.partition("## Beside a training")[2]
