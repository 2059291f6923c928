"""``epochal series``: one metric of a run in a few points."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

import click

from epochal.cli import options
from epochal.cli.command import chosen_run, data_command, reading_store, run_of
from epochal.cli.output import form, hint, say, say_csv, say_json, say_lines, terminal_columns
from epochal.errors import EpochalError, MetricNotFoundError, UsageError
from epochal.records.format import plural
from epochal.series.series import Series
from epochal.store.brief import SeriesPoints, main_metrics, read_series, series_points
from epochal.store.metrics import matching
from epochal.store.store import Store
from epochal.store.words import format_value

_WIDEST = 120
_NAMED = 5


@data_command
@click.argument("words", metavar="[RUN] METRIC...", nargs=-1, required=True)
@click.option(
    "-p",
    "--points",
    type=click.IntRange(5),
    default=40,
    help="Print at most this many points (40).",
)
@options.csv
@options.hub
def command(words: tuple[str, ...], points: int) -> None:
    """Print metrics of a run: the course, and the first, last, smallest and largest value.

    With one argument it is a metric of the newest run. A metric may be a pattern or a formula.
    --csv and --json print points at equal distances and the exact extremes.

    \b
    epochal series loss
    epochal series my-run loss 'eval/*' --json --points 100
    epochal series my-run 'train/loss - eval/loss' 'ema(loss, 0.9)'
    """
    key, texts = (None, words) if len(words) == 1 else (words[0], words[1:])
    with reading_store() as store:
        view = chosen_run(store, key)
        try:
            names = [one for text in texts for one in matching(text, view.metrics()) or (text,)]
            series = [read_series(view, name) for name in names]
        except MetricNotFoundError:
            _check_no_run(store, words)
            raise
        found = [series_points(view, one, points) for one in series]
        if form() == "json":
            say_json(found[0] if len(found) == 1 else found)
        elif form() == "csv":
            say_csv([row for one in found for row in one.rows()])
            for one in found:
                if one.count > len(one.steps):
                    hint(f"{len(one.steps)} of {one.count:,} points of {one.metric}: see --points.")
        else:
            for one, whole in zip(found, series, strict=True):
                _print(one, whole, points)


def _check_no_run(store: Store, words: Sequence[str]) -> None:
    """Raise ``UsageError`` if the only word is not a metric, but a run."""
    try:
        metrics = [one.name for one in main_metrics(run_of(store, words[0])) if one.axis != "none"]
    except EpochalError:
        return
    if len(words) == 1:
        names = ", ".join(metrics[:_NAMED])
        raise UsageError(f"{words[0]!r} is a run: name a metric of it as well, such as {names}.")


def _print(found: SeriesPoints, series: Series, points: int) -> None:
    say(f"{found.metric}  ({plural(found.count, 'point')} of {found.run})")
    if len(series) and find_spec("rich") is not None:
        from epochal.cli.tui.text import sparkline

        columns = min(terminal_columns(), _WIDEST) if sys.stdout.isatty() else points
        say_lines([[(sparkline(series.buckets(columns).mean, columns), "accent")]])
    for name in ("first", "last", "min", "max"):
        point = getattr(found, name)
        if point is not None:
            at, value = point
            say(f"  {name:<5} {format_value(found.metric, value):>12}  at {found.x} {at:g}")
    if found.nonfinite:
        say(f"  {plural(found.nonfinite, 'value')} not finite")
