"""Records trainings of Stable-Baselines3: ``model.learn(n, callback=EpochalCallback())``.

:class:`EpochalOutput` alone is an output format of SB3's logger, beside ``stdout`` or ``csv``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from epochal.exchange.media import types
from epochal.exchange.media.pixels import as_array
from epochal.integrations.framework import TrainingRun, callback, require
from epochal.run.run import Run, recorder_of

require("stable_baselines3", "epochal.integrations.stable_baselines3")

from stable_baselines3.common.callbacks import BaseCallback  # noqa: E402 (missing: one sentence, above)
from stable_baselines3.common.logger import Figure, HParam, Image, KVWriter, Video  # noqa: E402

_PLAIN = (bool, int, float, str, type(None))


class EpochalOutput(KVWriter):  # type: ignore[misc]
    """Writes what SB3's logger dumps to a run; names that exclude "epochal" are left out."""

    def __init__(self, run: Run) -> None:
        self.run = run

    @callback
    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0
    ) -> None:
        """Record one dump: numbers as metrics, the rest as what it is."""
        numbers: dict[str, Any] = {}
        for name, value in key_values.items():
            if "epochal" in (key_excluded.get(name) or ()):
                continue
            if isinstance(value, str):
                recorder_of(self.run).write_text(name, value, step)
            elif isinstance(value, np.ScalarType):
                numbers[name] = value
            elif isinstance(value, HParam):
                self.run.config.update(value.hparam_dict)
                numbers.update(value.metric_dict)
            elif isinstance(value, (Figure, Image, Video)):
                self.run.log({name: _samples(value)}, step)
            else:
                recorder_of(self.run).write_histogram(name, value, step)
        if numbers:
            self.run.log(numbers, step=step)

    def close(self) -> None:
        """Leave the run open: its owner finishes it."""


class EpochalCallback(BaseCallback):  # type: ignore[misc]
    """Records what a model's logger dumps, at the number of time steps, and its parameters.

    Writes to ``run``, or to the run that is open. Otherwise it starts one for each ``learn``, with
    ``options``, the arguments of ``init``.
    """

    def __init__(self, run: Run | None = None, **options: Any) -> None:
        super().__init__()
        self._training = TrainingRun(run, options)
        self._output: EpochalOutput | None = None

    @callback
    def _on_training_start(self) -> None:
        self._detach()
        total = self.locals.get("total_timesteps")
        config = _parameters(self.model)
        self._output = EpochalOutput(self._training.begin(config, total_steps=total))
        self.logger.output_formats.append(self._output)

    def _on_step(self) -> bool:
        return True

    @callback
    def _on_training_end(self) -> None:
        self._detach()
        self._training.end()

    def _detach(self) -> None:
        """Leave the logger; after an exception it has the output of the training before."""
        if self._output in self.logger.output_formats:
            self.logger.output_formats.remove(self._output)


def _samples(value: Any) -> types.Sample | list[types.Sample]:
    """A picture or a video of SB3's logger as ours; a batch as several."""
    if isinstance(value, Figure):
        picture = types.Image(value.figure)
        if value.close:
            from matplotlib import pyplot

            pyplot.close(value.figure)
        return picture
    if isinstance(value, Video):  # N×T×C×H×W
        return [types.Video(frames, value.fps) for frames in as_array(value.frames, what="a video")]
    if isinstance(value.image, str):
        return types.Image(value.image)
    axes = value.dataformats.upper()
    ours = "".join(axis for axis in "NHWC" if axis in axes)
    pixels = np.einsum(f"{axes}->{ours}", as_array(value.image, what="a picture"))
    return [types.Image(one) for one in pixels] if "N" in axes else types.Image(pixels)


def _parameters(model: Any) -> dict[str, Any]:
    """The plain attributes of a model, and what it is made of."""
    attributes: Mapping[str, Any] = vars(model)
    found = {
        name: value
        for name, value in attributes.items()
        if not name.startswith("_") and isinstance(value, _PLAIN)
    }
    env = model.get_env()
    return {
        **found,
        "algorithm": type(model).__name__,
        "policy": type(model.policy).__name__,
        "num_parameters": sum(p.numel() for p in model.policy.parameters()),
        "env": None if env is None else str(env.get_attr("spec")[0] and env.get_attr("spec")[0].id),
    }
