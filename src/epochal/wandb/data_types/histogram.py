"""``wandb.Histogram``: counts between edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epochal.journal.line import now
from epochal.run.run import Run
from epochal.wandb.data_types.media import WBValue

MAX_LENGTH = 512


class Histogram(WBValue):
    """A distribution: of a sequence, or counted before as ``numpy.histogram`` does it."""

    MAX_LENGTH = MAX_LENGTH
    _log_type = "histogram"

    def __init__(
        self,
        sequence: Sequence[Any] | None = None,
        np_histogram: tuple[Any, Any] | None = None,
        num_bins: int = 64,
    ) -> None:
        if np_histogram is not None:
            if len(np_histogram) != 2:
                raise ValueError(
                    "Expected np_histogram to be a tuple of (values, bin_edges) or sequence to be"
                    " specified"
                )
            self.histogram, self.bins = (_listed(part) for part in np_histogram)
        else:
            import numpy as np

            from epochal.integrations.tensorboard_values import as_array

            if isinstance(sequence, (list, tuple, range)):
                sequence = np.asarray([one_number(item) for item in sequence])  # type: ignore[assignment]
            array = as_array(sequence).astype(float).reshape(-1)
            counts, edges = np.histogram(array[np.isfinite(array)], bins=num_bins)
            self.histogram, self.bins = counts.tolist(), edges.tolist()
        if len(self.histogram) > self.MAX_LENGTH:
            raise ValueError(f"The maximum length of a histogram is {self.MAX_LENGTH}")
        if len(self.histogram) + 1 != len(self.bins):
            raise ValueError("len(bins) must be len(histogram) + 1")

    def write_to(self, run: Run, name: str, step: int) -> None:
        """Record the distribution at a step."""
        from epochal.imports.histogram import histogram_record

        record = histogram_record(name, t=now(), step=step, edges=self.bins, counts=self.histogram)
        run.write(record)

    def to_json(self, run: Any = None) -> dict[str, Any]:
        """What W&B writes into its history."""
        return {"_type": self._log_type, "values": self.histogram, "bins": self.bins}


def one_number(value: Any) -> Any:
    """A number of a list; a tensor of one element is read."""
    return value.item() if hasattr(value, "item") else value


def _listed(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values)
