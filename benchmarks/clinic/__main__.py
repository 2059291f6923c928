"""The commands of the clinic: `run`, `judge`, `list` and `record`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.clinic import judge
from benchmarks.clinic.journal import RECORDED
from benchmarks.clinic.plan import Tier, trainings
from benchmarks.clinic.runner import run_all

OUT = Path(".bench/clinic")
UNSEEN_OUT = Path(".bench/clinic-unseen")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 1 if a training failed."""
    asked = _parser().parse_args(arguments)
    if asked.out is None:
        asked.out = UNSEEN_OUT if asked.tasks == "unseen" else OUT
    tier: Tier = "record" if asked.command == "record" else asked.tier
    wanted = trainings(tier, tuple(asked.only), asked.tasks)
    if asked.command == "judge":
        return _judge(asked)
    if asked.command == "list":
        print(*(one.id for one in wanted), f"{len(wanted)} trainings", sep="\n")
        return 0
    failed = run_all(wanted, asked.out, workers=asked.workers)
    print(*(f"failed: {name}" for name in failed), f"{len(wanted)} trainings", sep="\n")
    return int(bool(failed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clinic", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    helps = {
        "run": "run the trainings that have no journal yet",
        "judge": "pass the journals to the rules and print how often they are right",
        "list": "list the trainings",
        "record": "record the journals that rule-check replays, where they are missing",
    }
    for name, text in helps.items():
        command = commands.add_parser(name, help=text)
        command.add_argument("--tier", choices=("fast", "full"), default="fast")
        task_sets = ("known",) if name == "record" else ("known", "unseen")
        command.add_argument("--tasks", choices=task_sets, default="known")
        command.add_argument(
            "--only", action="append", default=[], help="task/fault, with * and ?; may be repeated"
        )
        command.add_argument("--workers", type=int, default=os.cpu_count() or 1)
        command.add_argument("--out", type=Path, default=RECORDED if name == "record" else None)
    commands.choices["judge"].add_argument("--markdown", action="store_true")
    commands.choices["judge"].add_argument("--details", action="store_true")
    return parser


def _judge(asked: argparse.Namespace) -> int:
    found = judge.judge_folder(asked.out, workers=asked.workers)
    print(*(judge.markdown if asked.markdown else judge.summary)(found), sep="\n")
    if asked.details:
        print(*judge.details(found), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
