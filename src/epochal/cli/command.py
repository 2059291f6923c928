"""What every command shares: how it is made, and the stores it reads; see ``options`` too.

A command is a module of this folder with a ``command``, and a line in ``main.COMMANDS``::

    @data_command
    @options.run
    @options.hub
    def command(run: str | None) -> int | None:
        \"\"\"Show one run in short.\"\"\"
        with reading_store() as store:
            view = chosen_run(store, run)

``--dir``, ``--follow-links``, ``-v`` and ``--quiet`` belong to every command already, ``--json``
to a ``data_command``. A command returns its exit code, None for 0. It prints through ``output``,
and raises an ``EpochalError`` for whatever a person can put right: ``main`` prints its sentence.
"""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from epochal.cli.output import choose_form, hint
from epochal.errors import EpochalError, MissingPackageError, UsageError
from epochal.journal.layout import RunFolder
from epochal.run.console.messages import Verbosity, set_verbosity
from epochal.settings import cache_folder, export_verbosity, nearest, read_settings
from epochal.store.lookup import is_address

if TYPE_CHECKING:
    from epochal.health.rule_settings import RuleSettings
    from epochal.journal.diagnosis import Diagnosis
    from epochal.store.comparison import Unfinished
    from epochal.store.run import RunView
    from epochal.store.store import Store

# Exit codes; 0 is fine or ended. ``UNKNOWN`` is for those who ask to be strict.
FINDINGS, ERROR, TIMEOUT, UNTIL_MET, UNKNOWN = 1, 2, 3, 4, 5


def diagnosis_code(known: Diagnosis, *, is_strict: bool = False) -> int:
    """The exit code of every command that answers with a diagnosis."""
    if known.state in ("suspicious", "broken"):
        return FINDINGS
    return UNKNOWN if is_strict and known.state == "unknown" else 0


# -- commands and groups --------------------------------------------------------------------------


@dataclass(slots=True)
class Shared:
    """Options of many commands; the first two may come before the command or after it."""

    dir: str | None = None
    follow_links: bool = False
    hub: str | None = None


def shared() -> Shared:
    """The shared options of the command that is running."""
    found = click.get_current_context().find_object(Shared)
    assert found is not None
    return found


def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep the value of an option in ``Shared``."""
    options = context.find_object(Shared)
    if value not in (None, False) and options is not None and parameter.name is not None:
        setattr(options, parameter.name, value)


def _set_verbosity(context: click.Context, parameter: click.Parameter, value: int | bool) -> None:
    if not value or context.resilient_parsing:
        return
    level = Verbosity.QUIET
    if parameter.name == "verbose":
        level = Verbosity(min(Verbosity.NORMAL + value, Verbosity.TRACE))
    set_verbosity(level)
    export_verbosity(level)


def _shared_options() -> list[click.Parameter]:
    option = partial(click.Option, expose_value=False)
    return [
        option(["--dir"], metavar="DIR", callback=keep, help="Folder of runs (setting: dir)."),
        option(["--follow-links"], is_flag=True, callback=keep, help="Follow links out of it."),
        option(["-v", "--verbose"], count=True, callback=_set_verbosity, help="Print more (-vvv)."),
        option(["-q", "--quiet"], is_flag=True, callback=_set_verbosity, help="Print errors only."),
    ]


class Command(click.Command):
    """A command with further options and the shared ones."""

    def __init__(self, *args: Any, options: Sequence[click.Option] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.context_settings.setdefault("help_option_names", ["-h", "--help"])
        self.params += [*options, *_shared_options()]


def cli_command(function: Callable[..., Any]) -> Command:
    """Make a command of a function; its docstring is the help."""
    return click.command(cls=Command)(function)


def data_command(function: Callable[..., Any]) -> Command:
    """Make a command that prints data, as JSON with ``--json``; see ``output.form``."""
    option = click.Option(["--json"], help="Print JSON for programs.", **FORM_FLAG)
    return click.command(cls=Command, options=[option])(function)


def _keep_form(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        choose_form(context, str(parameter.name))


FORM_FLAG: dict[str, Any] = {"is_flag": True, "expose_value": False, "callback": _keep_form}


class Group(click.Group, Command):
    """Commands in sections; the module of a command is imported when the command is used.

    ``sections`` has the summary of each command by section and name. The module of a command has
    its name, and calls it ``command``. ``modules`` names the modules that have several commands,
    each as a function of its own name.
    """

    def __init__(
        self,
        name: str,
        *,
        sections: Mapping[str, Mapping[str, str]],
        modules: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            name,
            subcommand_metavar="COMMAND [ARGS]...",
            no_args_is_help=False,
            invoke_without_command=True,
            **kwargs,
        )
        self.callback = self._show_help
        self.sections = sections
        self.summaries = {
            command: summary for part in sections.values() for command, summary in part.items()
        }
        self._modules = modules or {}

    def _show_help(self) -> int | None:
        context = click.get_current_context()
        if context.invoked_subcommand is not None:
            return None
        click.echo(context.get_help())
        context.exit(ERROR)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of the sections."""
        return list(self.summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in self.summaries:
            return None
        module = self._modules.get(cmd_name, cmd_name)
        module += "_" * keyword.iskeyword(module)  # `import` cannot be the name of a module
        function = cmd_name if cmd_name in self._modules else "command"
        try:
            found: Command = getattr(importlib.import_module(f"epochal.cli.{module}"), function)
        except ModuleNotFoundError as error:
            raise MissingPackageError(f"{ctx.command_path} {cmd_name}", error) from error
        found.name = cmd_name
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name; suggest one for a misspelt name."""
        if args[0] not in self.summaries and not args[0].startswith("-"):
            ctx.fail(f"there is no command {args[0]!r}; {nearest(args[0], self.summaries)}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under the headings of their sections, then the options."""
        width = max(map(len, self.summaries))
        for title, part in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), words) for name, words in part.items()])
        click.Command.format_options(self, ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, or an option, without an import of the commands."""
        found = [
            CompletionItem(name, help=summary)
            for name, summary in self.summaries.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


# -- stores and runs ------------------------------------------------------------------------------


def runs_dir() -> Path:
    """The folder of runs: ``--dir``, else the setting; raises ``UsageError`` for an address."""
    folder = shared().dir or read_settings().dir
    if is_address(folder):
        raise UsageError(f"{folder} can only be read: name a folder of this machine with --dir.")
    return Path(folder)


def local_store(folder: Path | None = None) -> Store:
    """The store over the folder of runs, or over another folder."""
    return store_of(shared(), folder)


def store_of(options: Shared, folder: Path | None = None) -> Store:
    """The store of these options."""
    from epochal.store.opening import open_runs, store_over

    where = folder or options.dir or read_settings().dir
    if is_address(where):
        return open_runs(where, rules=rules_now())
    return store_over(
        where, cache=cache_folder(), follow_links=options.follow_links, rules=rules_now()
    )


def rules_now() -> RuleSettings:
    """What the settings say about rules; a mistake in a file raises ``UsageError``."""
    from epochal.health.rule_settings import rule_settings

    return rule_settings(read_settings())


def reading_store(hub: str | None = None, place: str | Path | None = None) -> Store:
    """The store that a command reads: that of a hub, else a place on the disk, else our folder.

    ``--hub`` names the hub where ``hub`` does not. The place may belong to another tracker.
    """
    from epochal.store.opening import is_bucket, open_runs

    hub = shared().hub if hub is None else hub
    if hub is not None:
        from epochal.store.remote.catalog import hub_address, open_remote

        address = hub_address(hub)
        opening = open_runs if is_bucket(address) else open_remote
        return opening(address, rules=rules_now())
    if place is not None:
        return open_runs(place, follow_links=shared().follow_links, rules=rules_now())
    return local_store()


def run_of(store: Store, key: str) -> RunView:
    """The run that a key or a path names."""
    from epochal.store.local.by_path import named_run

    return named_run(store, key, follow_links=shared().follow_links)


def chosen_run(store: Store, key: str | None) -> RunView:
    """The run that RUN names. Without it: the newest one, which is named on stderr."""
    view = run_of(store, "latest" if key is None else key)
    if key is None:
        hint(f"The newest run is {full_name(view)}.")
    return view


def full_name(view: RunView) -> str:
    """``project/name`` of a run."""
    row = view.outline()
    return f"{row.project}/{row.name}"


def own_run(key: str | None) -> RunView:
    """The run of our own that RUN names, else the newest one; its store stays open."""
    view = chosen_run(local_store(), key)
    check_own(view)
    return view


def named_runs(store: Store, keys: Sequence[str]) -> list[Any]:
    """The runs that RUN… names; a project or a folder of runs selects all but its hidden ones."""
    found: list[Any] = []
    for key in keys:
        try:
            found.append(run_of(store, key))
        except EpochalError:
            inside = [run for run in store.known_runs().runs if run.outline().project == key]
            folder = Path(key).expanduser()
            if not inside and folder.is_dir():
                inside = list(local_store(folder).runs())
            shown = [run for run in inside if not run.outline().hidden]
            if not shown:
                raise
            found += shown
    return found


def selected_runs(store: Store, keys: Sequence[str], where: str | None) -> list[RunView]:
    """The runs that RUN… or ``--where`` select, each once."""
    if (where is None) == (not keys):
        raise UsageError("name runs, or select them with --where QUERY.")
    if where is None:
        named = (run_of(store, key) for key in keys)
        return list({view.place: view for view in named}.values())
    runs = list(store.runs(where))
    if not runs:
        raise UsageError(f"no run matches {where!r}.")
    return runs


def check_own(view: RunView) -> RunFolder:
    """The folder of a run; raises ``UsageError`` for a run in another tracker's files."""
    if view.tracker is not None:
        raise UsageError(
            f"{view.outline().name!r} is in files of {view.tracker}, which are only read."
            f" 'epochal import {view.path}' makes a copy that you can change."
        )
    return RunFolder(view.path)


def unfinished_text(found: Unfinished) -> str:
    """The sentence about unfinished runs, and how to include them; empty without any."""
    return f"{found.sentence}{unfinished_hint(found)}"


def unfinished_hint(found: Unfinished) -> str:
    """How to include unfinished runs; empty without any."""
    them = "it" if len(found.runs) == 1 else "them"
    return f" Use --unfinished to include {them}." if found.left_out else ""
