"""The commands of the clinic: `run`, `judge`, `list` and `record`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.clinic import judge
from benchmarks.clinic.journal import RECORDED
from benchmarks.clinic.pack import PackError, check_digest, keep_digest, load_pack, register
from benchmarks.clinic.plan import Tier, Training, trainings, trainings_of_pack
from benchmarks.clinic.runner import run_all

OUT = Path(".bench/clinic")
UNSEEN_OUT = Path(".bench/clinic-unseen")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns 1 if a training failed."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    try:
        wanted = _wanted(asked)
    except PackError as problem:
        parser.error(str(problem))
    if asked.command == "judge":
        return _judge(asked)
    if asked.command == "list":
        print(*(one.id for one in wanted), f"{len(wanted)} trainings", sep="\n")
        return 0
    failed = run_all(wanted, asked.out, workers=asked.workers)
    print(*(f"failed: {name}" for name in failed), f"{len(wanted)} trainings", sep="\n")
    return int(bool(failed))


def _wanted(asked: argparse.Namespace) -> list[Training]:
    """The trainings that a command is about; a pack has a folder of results of its own."""
    if asked.out is None:
        asked.out = UNSEEN_OUT if asked.tasks == "unseen" else OUT
        if asked.pack is not None:
            asked.out = OUT.with_name(f"clinic-{asked.pack.resolve().name}")
    if asked.pack is None:
        tier: Tier = "record" if asked.command == "record" else asked.tier
        return trainings(tier, tuple(asked.only), asked.tasks)
    pack = load_pack(asked.pack)
    register(pack)
    if asked.command == "run":
        keep_digest(pack, asked.out)
    elif asked.command == "judge":
        check_digest(pack, asked.out)
    return trainings_of_pack(pack.tasks, pack.faults, tuple(asked.only))


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
    for name in helps:
        command = commands.choices[name]
        command.set_defaults(pack=None)
        if name != "record":
            command.add_argument("--pack", type=Path, help="a folder of tasks and faults")
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
