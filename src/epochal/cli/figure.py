"""``epochal figure``: metrics of runs as a figure for a paper."""

from __future__ import annotations

from pathlib import Path

import click

from epochal.base.atomic_file import new_text_file
from epochal.cli import options
from epochal.cli.command import chosen_run, cli_command, named_runs, reading_store
from epochal.cli.output import hint, remark
from epochal.errors import UsageError
from epochal.exports.figure import FORMATS, read_panel, write_figure
from epochal.journal.layout import slugify
from epochal.records.format import plural
from epochal.series.smooth import parse_smoothing


@cli_command
@options.runs
@options.metrics
@click.option("--group-by", metavar="KEYS", help="Draw means and 95 % intervals of groups: lr.")
@click.option("--log", "is_log", is_flag=True, help="Use a logarithmic y axis.")
@click.option(
    "--smooth",
    is_flag=False,
    flag_value="0.9",
    metavar="[AMOUNT]",
    help="Smooth: 0.9 (default, as on the page), gaussian:12, mean:20 or time-ema:0.9.",
)
@click.option("-o", "--output", metavar="FILE", help="A .pdf, .svg or .png (default: METRIC.pdf).")
@options.unfinished
@options.hub
def command(
    runs: tuple[str, ...],
    metrics: tuple[str, ...],
    group_by: str | None,
    is_log: bool,
    smooth: str | None,
    output: str | None,
    unfinished: bool,
) -> None:
    """Draw metrics of runs as a figure for a paper: pdf, svg or png.

    A project or a folder means all of its runs; without RUN, the newest run is drawn.
    Example: epochal figure my-sweep -m val/acc --group-by lr -o acc.pdf
    """
    if not metrics:
        raise UsageError("name the metric to draw, such as -m loss.")
    path = Path(output or f"{slugify('-'.join(metrics))}.pdf")
    file_type = path.suffix.lower().lstrip(".")
    if file_type not in FORMATS:
        raise UsageError(f"-o {path} must end in .pdf, .svg or .png.")
    smoothing = None
    if smooth is not None:
        smoothing = parse_smoothing(smooth if ":" in smooth else f"ema:{smooth}")
    with reading_store() as store:
        views = named_runs(store, runs) if runs else [chosen_run(store, None)]
        views = list({view.id: view for view in views}.values())
        keys = options.comma_list(group_by)
        panels = [
            read_panel(views, metric, group_by=keys, smoothing=smoothing, unfinished=unfinished)
            for metric in dict.fromkeys(metrics)
        ]
    with new_text_file(path) as out:
        write_figure(panels, out.buffer, file_type=file_type, is_log=is_log)
    for sentence in dict.fromkeys(text for panel in panels for text in panel.remarks):
        hint(sentence)
    remark(f"{plural(len(views), 'run')} drawn in {path}.")
