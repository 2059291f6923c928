"""Arguments and options of several commands, which write ``@options.run`` or ``@options.hub``."""

from __future__ import annotations

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

from epochal.cli.command import FORM_FLAG, Shared, keep, store_of
from epochal.errors import EpochalError
from epochal.settings.kinds import read_age, read_size

_COMPLETED_RUNS = 200


class RunType(click.ParamType):  # type: ignore[type-arg] # older versions take no argument
    """A run, by name, path or id; shells complete the names."""

    name = "run"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names of runs that begin with what was typed; the newest first."""
        try:
            with store_of(ctx.find_object(Shared) or Shared()) as store:
                rows = [run.outline() for run in store.known_runs().runs[:_COMPLETED_RUNS]]
        except (EpochalError, OSError):
            return []
        keys = (f"{row.project}/{row.name}" if "/" in incomplete else row.name for row in rows)
        names = dict.fromkeys(("latest", *keys))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _amount(name: str, read: Callable[[str], float]) -> Callable[[str], float]:
    """A number with a unit, such as ``30m`` or ``50GB``."""

    def convert(text: str) -> float:
        try:
            return read(text)
        except ValueError as error:
            raise click.BadParameter(f"{text!r} {error}.") from error

    convert.__name__ = name
    return convert


DURATION = _amount("duration", read_age)
SIZE = _amount("size", read_size)
RUN = RunType()

run = click.argument("run", metavar="[RUN]", required=False, type=RUN)
runs = click.argument("runs", metavar="[RUN]...", nargs=-1, type=RUN)
metrics = click.option(
    "-m", "--metric", "metrics", multiple=True, help="A metric by its name or end, or a formula."
)
csv = click.option("--csv", help="Print CSV.", **FORM_FLAG)
where = click.option(
    "--where", metavar="QUERY", help="The runs of a query, in place of RUN: 'val/acc < 0.1'."
)
unfinished = click.option("--unfinished", is_flag=True, help="Include unfinished runs.")
yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
hub = click.option(
    "--hub",
    is_flag=False,
    flag_value="",
    metavar="[URL]",
    expose_value=False,
    callback=keep,
    help="Read the runs of a hub or a server (without URL: the setting hub.url).",
)


def comma_list(text: str | None) -> list[str] | None:
    """The words of an option that commas separate; None where it is not given."""
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]
