"""Records a training of Hugging Face Accelerate.

``import epochal.integrations.accelerate`` makes ``Accelerator(log_with="epochal")`` work. An
:class:`EpochalTracker` of one's own goes into ``log_with`` as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epochal.exchange.media.types import Image, Table
from epochal.integrations.framework import callback, log_samples, open_run, require
from epochal.run.run import Run

require("accelerate", "epochal.integrations.accelerate")

from accelerate.tracking import GeneralTracker, on_main_process, register_tracker_class  # noqa: E402 (missing: one sentence, above)


class EpochalTracker(GeneralTracker):  # type: ignore[misc]
    """A tracker of Accelerate that writes a run of a project; ``options`` are those of ``init``.

    Writes in the main process only. ``run`` is a run that is open already; it is not finished here.
    """

    name = "epochal"
    requires_logging_directory = False
    main_process_only = True

    def __init__(
        self, run_name: str | None = None, *, run: Run | None = None, **options: Any
    ) -> None:
        super().__init__()
        self.run_name = run_name  # what Accelerate calls the name of a project
        self._given = run
        self._run = run
        self._options = options

    @on_main_process  # type: ignore[untyped-decorator]
    @callback
    def start(self) -> None:
        """Open the run."""
        if self._run is None or self._run.state == "finished":
            self._run = open_run(self._options, console=None, project=self.run_name)

    @property
    def tracker(self) -> Run | None:
        """The run; None before ``init_trackers`` and in other processes."""
        return self._run

    @on_main_process  # type: ignore[untyped-decorator]
    @callback
    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Add to the configuration."""
        self._open().config.update(values)

    @on_main_process  # type: ignore[untyped-decorator]
    @callback
    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Record metrics; tensors on a GPU are not waited for."""
        self._open().log(values, step)

    @on_main_process  # type: ignore[untyped-decorator]
    @callback
    def log_images(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Record lists or batches of images, each under one name."""
        caption = kwargs.get("caption")
        pictures = {
            name: [Image(image, caption=caption) for image in images]
            for name, images in values.items()
        }
        log_samples(self._open(), pictures, step)

    @on_main_process  # type: ignore[untyped-decorator]
    @callback
    def log_table(
        self,
        table_name: str,
        columns: Sequence[str] | None = None,
        data: Sequence[Sequence[Any]] | None = None,
        dataframe: Any = None,
        step: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Record a table: ``columns`` and ``data``, or a data frame."""
        table = Table((data or ()) if dataframe is None else dataframe, columns)
        log_samples(self._open(), {table_name: table}, step)

    @on_main_process  # type: ignore[untyped-decorator]
    @callback
    def finish(self) -> None:
        """Finish the run, unless it was given."""
        if self._run is not None and self._given is None:
            self._run.finish()

    def _open(self) -> Run:
        if self._run is None:
            self.start()
        assert self._run is not None
        return self._run


register_tracker_class(EpochalTracker)
