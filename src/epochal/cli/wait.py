"""``epochal wait``: sleep until something happens to a run."""

from __future__ import annotations

import math
from functools import partial

import click

from epochal.cli import options
from epochal.cli.command import (
    FINDINGS,
    TIMEOUT,
    UNTIL_MET,
    data_command,
    reading_store,
    run_of,
    shared,
)
from epochal.cli.output import hint, said_json, say
from epochal.query.condition import Condition
from epochal.store.wait import ON, wait_for_run

_CODES = {"ended": 0, "finding": FINDINGS, "timeout": TIMEOUT, "until": UNTIL_MET}
_POLL_S, _POLL_HUB_S = 1.0, 5.0
_UNTIL = "Also end when a metric meets a condition: 'eval/loss < 2', 'acc > 0.9 for 3 points'."
_ON = "Also end for an open finding of this severity or a higher one (error); 'end' for none."


@data_command
@options.run
@click.option("--until", metavar="CONDITION", help=_UNTIL)
@click.option("--on", type=click.Choice(list(ON)), default="error", help=_ON)
@click.option("--timeout", type=options.DURATION, help="The longest time to wait: 90s, 30m, 2h.")
@options.hub
def command(run: str | None, until: str | None, on: str, timeout: float | None) -> int:
    """Wait until a run ends, and print one line about it.

    Without RUN, wait for the newest run. A run that does not exist yet is waited for. The wait also
    ends when an error is found: use --on to choose another severity.

    \b
    Exit codes: 0  the run ended, well or badly: the line names its status
                1  a finding of the chosen severity is open
                2  usage or another error
                3  time is up
                4  the condition of --until is met

    \b
    epochal wait latest --until 'eval/loss < 2' --timeout 2h
    """
    condition = None if until is None else Condition(until)
    with reading_store() as store:
        waited = wait_for_run(
            store,
            run or "latest",
            find=partial(run_of, store),
            until=condition,
            on=on,
            timeout_s=math.inf if timeout is None else timeout,
            poll_s=_POLL_S if shared().hub is None else _POLL_HUB_S,
            notice=hint,
        )
    if not said_json(waited):
        say(waited.sentence)
    return _CODES[waited.event]
