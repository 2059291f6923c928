"""Reads the command line and calls a command; errors become one sentence on stderr.

Exit codes: 0 done, 1 the command found a problem, 2 the command line was wrong, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import keyword
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, cast

from epochal.alarm import interrupting
from epochal.cli.command import Command
from epochal.cli.output import complain
from epochal.console.messages import Verbosity, set_verbosity, verbose
from epochal.errors import EpochalError, InternalError, MissingPackageError
from epochal.guard import describe_traceback
from epochal.settings import export_verbosity
from epochal.version import __version__

# What it is called, and what it does; the module of the same name is loaded when it is used.
COMMANDS: Mapping[str, str] = {
    "demo": "train a small model, live in the browser, and record it",
    "ls": "list runs",
    "show": "show one run: status, configuration, metrics",
    "tail": "print a run's latest records, and follow it",
    "doctor": "print findings of a run and what to try; without RUN, what fills the disk",
    "compare": "compare config and final metrics of runs",
    "why": "rank what explains that a run is worse than another one",
    "export": "write runs as csv, parquet, jsonl or html",
    "figure": "draw metrics of runs as a figure for a paper: pdf, svg or png",
    "sync": "send a run to other trackers; each continues where it stopped",
    "import": "copy runs of other trackers into run folders",
    "repair": "report and repair damage in a run's folder",
    "pack": "seal finished parts of journals, so that they are small and fast to read",
    "rm": "move runs to the trash",
    "trash": "list, restore or erase deleted runs",
    "prune": "move old runs to the trash; lists them first",
    "rename": "rename a run",
    "tag": "add or remove tags of runs",
    "note": "read or write the note of runs",
    "hide": "leave runs out of lists, or show them again",
    "serve": "show runs live in a browser",
    "hub": "receive runs from other machines, and show them live in a browser",
    "push": "send runs to a hub",
    "pull": "fetch runs from a hub",
    "audit": "print who changed what on a hub",
    "share": "make a link that shows some runs of a hub, read-only",
    "token": "make, list and revoke the tokens of a hub",
    "watch": "follow runs live in the terminal",
    "checkpoints": "list a run's checkpoints",
    "run": "start a training, record its output, restart it after a crash",
    "resume": "print or run the command that continues a run",
    "stop": "stop, suspend or continue a training",
    "config": "show settings and where each value comes from",
}
_INTERRUPTED = 130
_BROKEN_PIPE = 141  # what a shell reports of a program that a closed pipe ended


class _Parser(argparse.ArgumentParser):
    """A parser whose mistakes are one sentence, and whose command is loaded when it is used."""

    def __init__(self, *args: Any, command: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._command = command

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Add the command's own arguments first."""
        if self._command is not None:
            _load(self._command).configure(self)
            self._command = None
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the mistake and how to get help."""
        complain(f"epochal: {message} (see '{self.prog} --help')")
        self.exit(2)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``epochal`` with these arguments, the process's own by default; the exit code."""
    _print_any_character()
    try:
        # argparse ends with SystemExit for --help and for mistakes; its code is ours.
        args = _parser().parse_args(argv)
        if args.command is None:
            _parser().print_help()
            return 2
        _set_verbosity(args)
        with interrupting():
            code = _load(args.command).run(args)
        sys.stdout.flush()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BrokenPipeError:
        # Whoever read us has seen enough; nothing may be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (EpochalError, OSError) as error:
        if isinstance(error, InternalError) and error.__cause__ is not None:
            verbose("%s", describe_traceback(error.__cause__))
        complain(f"epochal: {error}")
        return 1
    except ModuleNotFoundError as error:
        complain(f"epochal: {MissingPackageError('this command', error)}")
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="epochal", description="Epochal watches a training run.")
    parser.add_argument("--version", action="version", version=f"epochal {__version__}")
    _add_shared(parser)
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=_Parser
    )
    for name, words in COMMANDS.items():
        _add_shared(
            commands.add_parser(
                name, help=words, description=words[0].upper() + words[1:] + ".", command=name
            )
        )
    return parser


def _add_shared(parser: argparse.ArgumentParser) -> None:
    """Options that may come before or after the command; the later one counts."""
    parser.add_argument(
        "--dir",
        default=argparse.SUPPRESS,
        help="folder of runs (default: the setting dir, else runs)",
    )
    parser.add_argument(
        "--follow-links",
        action="store_true",
        default=argparse.SUPPRESS,
        help="follow links that lead out of the folder of runs",
    )
    parser.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=argparse.SUPPRESS,
        help="print more; -vv for debugging, -vvv for everything",
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", default=argparse.SUPPRESS, help="print errors only"
    )


def _set_verbosity(args: argparse.Namespace) -> None:
    more = getattr(args, "verbose", 0)
    if getattr(args, "quiet", False):
        level = Verbosity.QUIET
    elif more:
        level = Verbosity(min(Verbosity.NORMAL + more, Verbosity.TRACE))
    else:
        return
    set_verbosity(level)
    export_verbosity(level)


def _load(name: str) -> Command:
    # `import` cannot be the name of a module.
    module = f"epochal.cli.{name}_" if keyword.iskeyword(name) else f"epochal.cli.{name}"
    try:
        return cast(Command, importlib.import_module(module))
    except ModuleNotFoundError as error:
        raise MissingPackageError(f"epochal {name}", error) from error


def _print_any_character() -> None:
    """Show what the terminal's character set lacks escaped, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
