"""The commands of the clinic: `run`, `judge`, `report`, `harm`, `rates` and `list`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

OUT = Path(".bench/clinic")
_HALVES = (
    *("tuning", "unseen", "blind3", "blind4", "blind5", "blind6"),
    *("blind7", "blind8", "blind9", "blind10", "all"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; ends with 1 when a training failed or an aim is missed."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    commands = {
        "run": _run,
        "judge": _judge,
        "report": _report,
        "harm": _harm,
        "rates": _rates,
        "list": _list,
    }
    return commands[asked.command](asked)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clinic", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run trainings that have no evidence yet")
    listing = commands.add_parser("list", help="list the trainings")
    for one in (run, listing):
        one.add_argument("--tier", choices=("quick", "full", "all"), default="quick")
        one.add_argument("--only", action="append", default=[], help="kind/fault, with * and ?")
    run.add_argument("--jobs", type=int, default=2, help="trainings at a time (default 2)")
    run.add_argument(
        "--order",
        choices=("longest", "balanced"),
        default="longest",
        help="balanced may be cut off anywhere: first healthy ones, then faults in turn",
    )
    run.add_argument("--minutes", type=float, help="begin nothing that would not end by then")
    run.add_argument("--keep", action="store_true", help="keep the folders of the runs")
    judge = commands.add_parser("judge", help="diagnose the evidence and print the rates")
    report = commands.add_parser("report", help="write the tables of a verdict")
    harm = commands.add_parser("harm", help="compare results with healthy twins, ask no rule")
    rates = commands.add_parser("rates", help="train healthy ones again with other rates")
    rates.add_argument("--seeds", type=int, default=2, help="trainings of each (default 2)")
    rates.add_argument("--jobs", type=int, default=2, help="trainings at a time (default 2)")
    rates.add_argument("--only", action="append", default=[], help="kind, with * and ?")
    rates.add_argument("--wide", action="store_true", help="from a ninth to 27 times the rate")
    rates.add_argument("--minutes", type=float, help="begin nothing more after this time")
    rates.add_argument("--to", type=Path, help="a file with a line of JSON for each trial")
    for one in (run, rates):
        one.add_argument(
            "--device",
            choices=("cpu", "cuda", "both"),
            default="cpu",
            help="both trains every second one, or seed, on the GPU (default cpu)",
        )
    for one in (run, listing, judge, report, harm, rates):
        one.add_argument("--half", choices=_HALVES, default="all")
    for one in (judge, report, harm):
        one.add_argument("--evidence", type=Path, help="the folder (default OUT/evidence)")
    for one in (judge, report):
        one.add_argument("--jobs", type=int, default=1, help="processes that diagnose (default 1)")
        one.add_argument("--only", action="append", default=[], help="kind/fault, with * and ?")
    judge.add_argument("--say", action="store_true", help="print every finding")
    report.add_argument("--to", type=Path, help="the file (default OUT/report.md)")
    for one in (run, judge, report, harm, listing):
        one.add_argument("--out", type=Path, default=OUT, help=f"default {OUT}")
    return parser


def _run(asked: argparse.Namespace) -> int:
    from benchmarks.clinic.plan import balanced, trainings
    from benchmarks.clinic.runner import run_all

    wanted = trainings(asked.tier, tuple(asked.only), half=asked.half)
    if asked.order == "balanced":
        wanted = balanced(wanted)
    progress = run_all(
        wanted,
        asked.out,
        jobs=asked.jobs,
        minutes=asked.minutes,
        keep=asked.keep,
        device=asked.device,
    )
    left = progress.total - progress.done - len(progress.failed)
    print(f"{progress.done} done, {len(progress.failed)} failed, {left} left of {len(wanted)}")
    for name in progress.failed:
        print(f"FAILED: {name}, see {asked.out / 'failed' / name}.txt")
    return int(bool(progress.failed))


def _judge(asked: argparse.Namespace) -> int:
    from benchmarks.clinic.report import print_verdict
    from benchmarks.clinic.verdict import judge_folder

    folder = asked.evidence or asked.out / "evidence"
    verdict = judge_folder(folder, half=asked.half, jobs=asked.jobs, only=tuple(asked.only))
    print_verdict(verdict, say=asked.say)
    return 0


def _report(asked: argparse.Namespace) -> int:
    from benchmarks.clinic.report import markdown
    from benchmarks.clinic.verdict import judge_folder

    folder = asked.evidence or asked.out / "evidence"
    verdict = judge_folder(folder, half=asked.half, jobs=asked.jobs, only=tuple(asked.only))
    path = asked.to or asked.out / "report.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(markdown(verdict))
    print(path)
    return 0


def _harm(asked: argparse.Namespace) -> int:
    from benchmarks.clinic.report import harm_table
    from benchmarks.clinic.verdict import judge, results_of

    folder = asked.evidence or asked.out / "evidence"
    print(harm_table(judge(results_of(folder, half=asked.half))))
    return 0


def _rates(asked: argparse.Namespace) -> int:
    from benchmarks.clinic.plan import healthy, matches
    from benchmarks.clinic.rates import markdown, trials

    only = tuple(asked.only) or ("*",)
    asked_for = (one for one in healthy("all") if asked.half in ("all", one.half))
    places = {f"{one.kind_name}/{one.optimizer}": None for one in asked_for if matches(one, only)}
    found = trials(
        tuple(places),
        seeds=asked.seeds,
        jobs=asked.jobs,
        wide=asked.wide,
        minutes=asked.minutes,
        device=asked.device,
        to=asked.to,
    )
    print(markdown(found))
    return 0


def _list(asked: argparse.Namespace) -> int:
    from benchmarks.clinic.cost import cpu_hours
    from benchmarks.clinic.plan import trainings

    wanted = trainings(asked.tier, tuple(asked.only), half=asked.half)
    for one in wanted:
        print(one.id, one.half)
    steps = sum(one.kind.steps for one in wanted if one.fault is None)
    hours, waits = cpu_hours(wanted), sum(one.expected_s for one in wanted) / 3600
    print(
        f"{len(wanted)} trainings, {steps:,} healthy steps, about {hours:.1f} CPU-hours "
        f"({waits:.1f} hours one after the other)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
