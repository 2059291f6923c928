"""One file per measure.

Each has `NAME`, `run(stage)` for the driver, and, where contenders log,
`work(contender, directory, …)` for the worker. Only the standard library may be imported at the top
of these files: the worker runs in the peers' environments.
"""

from __future__ import annotations

from benchmarks.measures import (
    cold,
    columns,
    cpu,
    disk,
    event_files,
    first_look,
    hot,
    import_time,
    kill,
    lists,
    log_folders,
    page_cost,
    reading,
    rules,
    samples,
    sealed,
    serving,
    summaries,
    summary_writer,
)
from benchmarks.outcome import Measure


def every_measure() -> dict[str, Measure]:
    """In the order of running: what is most easily disturbed comes first."""
    measures = (
        hot,
        summary_writer,
        samples,
        cold,
        cpu,
        columns,
        import_time,
        disk,
        rules,
        summaries,
        sealed,
        reading,
        serving,
        page_cost,
        lists,
        first_look,
        event_files,
        log_folders,
        kill,
    )
    return {measure.NAME: measure for measure in measures}
