"""Records trainings of Keras 3: ``model.fit(..., callbacks=[EpochalCallback()])``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochal.errors import UsageError
from epochal.integrations.framework import TrainingRun, callback, require
from epochal.run.run import Run

require("keras", "epochal.integrations.keras")

from keras.callbacks import Callback  # noqa: E402 (missing: one sentence, above)


class EpochalCallback(Callback):  # type: ignore[misc]
    """Records metrics as ``train/…`` and ``val/…`` after each epoch, at the optimizer's step.

    With ``update_freq="batch"``, or a number of batches, also ``batch/…``; Keras waits for the
    values of each batch then. ``evaluate`` outside ``fit`` gives ``test/…``. Writes to ``run``, or
    to the run that is open. Otherwise it starts one for each ``fit``, with ``options``, the
    arguments of ``init``.
    """

    def __init__(
        self, run: Run | None = None, *, update_freq: str | int = "epoch", **options: Any
    ) -> None:
        super().__init__()
        if update_freq not in ("epoch", "batch") and not (
            isinstance(update_freq, int) and update_freq > 0
        ):
            raise UsageError(f"update_freq={update_freq!r} is not 'epoch', 'batch' or a number.")
        self._every = 1 if update_freq == "batch" else update_freq
        if self._every == "epoch":
            # Keras computes values of batches only for callbacks that have a method of their own.
            setattr(self, "on_train_batch_end", super().on_train_batch_end)  # noqa: B010
        self._training = TrainingRun(run, options)
        self._is_fitting = False
        self._first = 0  # the step at the beginning of the epoch

    @callback
    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Open the run and record the configuration."""
        given = self.params or {}
        epochs, batches = given.get("epochs"), given.get("steps")
        total = self._step() + epochs * batches if epochs and batches else None
        self._training.begin(_config(self.model, given), total_steps=total)
        self._is_fitting = True

    @callback
    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Remember the step at which the epoch begins."""
        self._first = self._step()

    @callback
    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Record the metrics of a batch."""
        if logs and isinstance(self._every, int) and (batch + 1) % self._every == 0:
            values = {f"batch/{name}": value for name, value in logs.items()}
            self._training.opened().log(values, step=self._first + batch + 1)

    @callback
    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Record the metrics of an epoch."""
        values = {_name(name): value for name, value in (logs or {}).items()}
        self._training.opened().log({**values, "epoch": epoch + 1}, step=self._step())

    @callback
    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Record an evaluation of its own; those within ``fit`` come with the epoch."""
        if logs and not self._is_fitting:
            values = {f"test/{name}": value for name, value in logs.items()}
            self._training.opened().log(values, step=self._step())
            self._training.end()

    @callback
    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Finish a run of its own."""
        self._is_fitting = False
        self._training.end()

    def _step(self) -> int:
        optimizer = getattr(self.model, "optimizer", None)
        return 0 if optimizer is None else int(optimizer.iterations)


def _name(name: str) -> str:
    if name.startswith("val_"):
        return f"val/{name.removeprefix('val_')}"
    return name if name in ("lr", "learning_rate") else f"train/{name}"


def _config(model: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    optimizer = getattr(model, "optimizer", None)
    loss = getattr(model, "loss", None)
    return {
        "model": model.name,
        "num_parameters": model.count_params() if model.built else None,
        "loss": loss if isinstance(loss, str) else getattr(loss, "name", None),
        "optimizer": None if optimizer is None else _plain(optimizer.get_config()),
        "epochs": params.get("epochs"),
        "batches_per_epoch": params.get("steps"),
    }


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """The entries that are numbers and texts; a schedule by its own entries."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping):
            found[name] = _plain(value)
        elif isinstance(value, (bool, int, float, str)):
            found[name] = value
    return found
