"""``epochal figure``: metrics of runs as a figure for a paper."""

from __future__ import annotations

import argparse
from pathlib import Path

from epochal.atomic_file import new_text_file
from epochal.cli.command import (
    WHOLE_PROJECTS,
    add_hub_reading,
    add_run,
    add_unfinished,
    named_runs,
    reading_store,
)
from epochal.cli.output import hint, remark
from epochal.errors import UsageError
from epochal.exports.figure import FORMATS, read_panel, write_figure
from epochal.journal.layout import slugify
from epochal.series.smooth import parse_smoothing

_SMOOTHNESS = "0.9"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``figure``."""
    add_run(parser, several=True, more=WHOLE_PROJECTS)
    parser.add_argument(
        "-m",
        "--metric",
        action="append",
        required=True,
        metavar="NAME",
        help="metric to draw; several -m make several panels",
    )
    parser.add_argument(
        "--group-by",
        metavar="KEYS",
        help="draw the mean of each group with its 95 %% confidence interval; keys of the config,"
        " with commas between: lr,model",
    )
    parser.add_argument("--log", action="store_true", help="use a logarithmic y axis")
    parser.add_argument(
        "--smooth",
        nargs="?",
        const=_SMOOTHNESS,
        metavar="AMOUNT",
        help="smooth the lines as the page does: a weight such as 0.9 (the default), or"
        " gaussian:12, mean:20, time-ema:0.9",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="output file; its suffix selects pdf, svg or png (default: METRIC.pdf)",
    )
    add_unfinished(parser)
    add_hub_reading(parser)


def run(args: argparse.Namespace) -> int:
    """Draw the runs and write the file."""
    output = Path(args.output or f"{slugify('-'.join(args.metric))}.pdf")
    file_type = output.suffix.lower().lstrip(".")
    if file_type not in FORMATS:
        raise UsageError(f"-o {output} must end in .pdf, .svg or .png.")
    smoothing = None
    if args.smooth is not None:
        kind = args.smooth if ":" in args.smooth else f"ema:{args.smooth}"
        smoothing = parse_smoothing(kind)
    keys = None if args.group_by is None else [key.strip() for key in args.group_by.split(",")]
    with reading_store(args) as store:
        runs = list({view.id: view for view in named_runs(store, args)}.values())
        panels = [
            read_panel(runs, metric, group_by=keys, smoothing=smoothing, unfinished=args.unfinished)
            for metric in dict.fromkeys(args.metric)
        ]
    with new_text_file(output) as out:
        write_figure(panels, out.buffer, file_type=file_type, is_log=args.log)
    for sentence in dict.fromkeys(text for panel in panels for text in panel.remarks):
        hint(sentence)
    remark(f"{len(runs)} {'run' if len(runs) == 1 else 'runs'} drawn in {output}.")
    return 0
