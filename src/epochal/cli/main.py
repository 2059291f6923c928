"""The program ``epochal``: its commands in groups, and how their errors end.

Exit codes: 0 fine or ended, 1 findings, 2 usage or any other error, 3 timeout, 4 ``--until`` met,
130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from epochal.base.alarm import interrupting
from epochal.base.guard import describe_traceback
from epochal.cli.command import ERROR, Group, Shared
from epochal.cli.output import complain
from epochal.errors import EpochalError, InternalError, MissingPackageError
from epochal.run.console.messages import verbose
from epochal.version import __version__

# What each command does; the module of the same name is imported when the command is used.
COMMANDS = {
    "Look at runs": {
        "ls": "list runs, with any metric or configuration as a column",
        "show": "show one run in short: status, progress, main metrics, findings",
        "series": "print one metric of a run",
        "doctor": "diagnose a run: what is wrong, the evidence and what to try",
        "tail": "print the latest records of a run, and follow it",
        "watch": "follow runs live in the terminal",
        "serve": "follow runs live in the browser",
    },
    "Compare runs": {
        "compare": "compare runs, or groups of runs, by configuration and metrics",
        "why": "rank what explains that one run is worse than another",
        "figure": "draw metrics as a figure for a paper",
    },
    "Run trainings": {
        "demo": "train a small model, live in the browser",
        "run": "start a training, watch it and stop it when something goes wrong",
        "wait": "wait until a run ends, something is found or a metric reaches a value",
        "resume": "print or run the command that continues a run",
        "stop": "stop, suspend or continue a training",
    },
    "Share runs": {
        "export": "write runs as HTML, CSV, Parquet or JSON lines",
        "import": "copy runs of other trackers",
        "sync": "send a run to another tracker",
        "hub": "share runs of several machines: start a hub, push and pull runs",
        "skill": "print the page that teaches coding agents to use Epochal",
        "mcp": "answer questions of coding agents over the Model Context Protocol",
    },
    "Tidy up": {
        "tag": "add or remove tags",
        "note": "read or write notes",
        "rm": "move runs to the trash",
        "manage": "clean up, repair and rename runs, and see what fills the disk",
        "config": "show the settings and where each value comes from",
    },
}
_INTERRUPTED = 130
_BROKEN_PIPE = 141  # what a shell reports of a program that a closed pipe ended


def _print_completion(context: click.Context, _: click.Parameter, shell: str | None) -> None:
    if shell is None or context.resilient_parsing:
        return
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None
    click.echo(completion(program, {}, "epochal", "_EPOCHAL_COMPLETE").source())
    context.exit()


program = Group(
    "epochal",
    sections=COMMANDS,
    modules={
        "mcp": "skill",
        "rm": "trash",
        **dict.fromkeys(("tag", "note"), "labels"),
        **dict.fromkeys(("hub", "manage"), "main"),
    },
    help="Epochal watches a training run. Without RUN, commands about one run take the newest.",
    params=[
        click.Option(
            ["--completion"],
            type=click.Choice(("bash", "zsh", "fish")),
            is_eager=True,
            expose_value=False,
            callback=_print_completion,
            help='Print the completion script of a shell: eval "$(epochal --completion bash)".',
        )
    ],
)
click.version_option(__version__, prog_name="epochal", message="%(prog)s %(version)s")(program)

manage = Group(
    "manage",
    sections={
        "Commands": {
            "du": "show what fills the disk",
            "trash": "list, restore or erase deleted runs",
            "prune": "move old runs to the trash; lists them first",
            "pack": "seal finished runs, so that they are small and fast to read",
            "verify": "read everything of a run, and report what is damaged",
            "repair": "verify a run, and repair what is damaged",
            "rename": "show a run under another name",
            "hide": "leave runs out of lists, or show them again",
            "checkpoints": "list the checkpoints of a run",
        }
    },
    modules={
        "rename": "labels",
        "hide": "labels",
        **dict.fromkeys(("verify", "repair"), "repair"),
        **dict.fromkeys(("du", "trash", "prune"), "trash"),
    },
    help="Clean up, repair and rename runs, and see what fills the disk.",
)

hub = Group(
    "hub",
    sections={
        "Run a hub": {
            "serve": "receive runs from other machines and show them live",
            "token": "make, list and revoke the tokens of a hub",
            "share": "make a link that shows some runs to anybody who has it",
            "audit": "print who changed what, the newest first",
            "doctor": "check the folder of a hub, or its database and bucket",
            "migrate": "copy the folder of a hub into a database and a bucket",
            "upgrade": "bring the tables of a database to the version of this program",
            "retention": "print which old runs go, or give all hubs their rules",
            "rebuild": "make the database of several hubs anew from their bucket",
        },
        "Use a hub": {
            "push": "send runs to a hub; with --watch, as they grow",
            "pull": "fetch runs from a hub into the folder of runs",
        },
    },
    modules={
        **dict.fromkeys(("token", "share", "audit", "retention"), "hub_access"),
        **dict.fromkeys(("push", "pull"), "hub_transfer"),
        **dict.fromkeys(("doctor", "migrate", "upgrade", "rebuild"), "hub_operations"),
        "serve": "serve",
    },
    help="Share runs of several machines: 'hub serve DIR' starts a hub, 'hub push' sends runs.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``epochal`` with these arguments, by default those of the process; the exit code."""
    _print_any_character()
    try:
        with interrupting():
            code: Any = program.main(
                argv, "epochal", standalone_mode=False, obj=Shared(), max_content_width=100
            )
        sys.stdout.flush()
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        see = f" (see '{context.command_path} --help')" if context is not None else ""
        complain(f"epochal: {error.format_message()}{see}")
        return ERROR
    except (BrokenPipeError, SystemExit):  # click exits when a pipe is closed
        # The reader has seen enough. Nothing may be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except (KeyboardInterrupt, click.Abort):
        return _INTERRUPTED
    except (EpochalError, OSError) as error:
        if isinstance(error, InternalError) and error.__cause__ is not None:
            verbose("%s", describe_traceback(error.__cause__))
        complain(f"epochal: {_reason(error)}")
        return ERROR
    except ModuleNotFoundError as error:
        complain(f"epochal: {MissingPackageError('this command', error)}")
        return ERROR
    return code if isinstance(code, int) else 0


def _print_any_character() -> None:
    """Show what the terminal's character set lacks escaped, instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _reason(error: EpochalError | OSError) -> str:
    """Return what went wrong, for a file without Python's ``[Errno 13]``."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fspath(error.filename)}: {error.strerror}."
    return str(error)
