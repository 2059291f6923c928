"""``epochal schedule``: a learning-rate schedule drawn in the terminal."""

from __future__ import annotations

import argparse
import shutil

from epochal.cli.command import add_json
from epochal.cli.output import say, say_json
from epochal.errors import UsageError
from epochal.torch.schedule.plot import draw_schedule
from epochal.torch.schedule.text import format_schedule, parse_schedule

_WIDEST = 100


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``schedule``."""
    parser.add_argument(
        "schedule", metavar="SCHEDULE", help="for example 'warmup(cosine(1e-3,1e-6,1000),100)'"
    )
    parser.add_argument(
        "--steps", type=int, help="number of steps (default: the length of the schedule)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Draw a schedule, or print the rate of every step."""
    schedule = parse_schedule(args.schedule)
    steps = schedule.horizon() if args.steps is None else args.steps
    if steps < 1:
        raise UsageError(f"--steps must be at least 1, got {steps}.")
    if args.json:
        say_json(
            {
                "schedule": format_schedule(schedule),
                "state": schedule.state(),
                "lr": [schedule.lr(step) for step in range(steps + 1)],
            }
        )
    else:
        width = max(16, min(shutil.get_terminal_size().columns, _WIDEST) - 12)
        say(format_schedule(schedule))
        say(draw_schedule(schedule, steps=steps, width=width))
    return 0
