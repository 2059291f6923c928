"""``watch`` and ``unwatch``: hands models over to ``epochal.watch``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epochal.run.run import Run
from epochal.wandb.notices import not_supported

_LOGS = (None, "gradients", "parameters", "all")


class Watches:
    """The models of one run that are watched."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._watched: list[tuple[Any, Any]] = []

    def add(self, models: Any, log: str | None, every: int, *, log_graph: bool) -> None:
        """Watch one model or several, every so many optimizer steps."""
        from torch import nn

        if log not in _LOGS:
            raise ValueError("log must be 'gradients', 'parameters', 'all' or None")
        listed = list(models) if isinstance(models, (list, tuple)) else [models]
        for model in listed:
            if not isinstance(model, nn.Module):
                raise TypeError(
                    f"Expected a pytorch model (torch.nn.Module). Received {type(model)}"
                )
        if log_graph:
            not_supported("watch(log_graph=True)", "the model is watched without a graph")
        if log is None or self._run.state == "off":
            return
        from epochal.torch.watching import watch

        for model in listed:
            watched = watch(
                model, self._run, every=every, gradients=log in ("gradients", "all"), updates=False
            )
            self._watched.append((model, watched))

    def remove(self, models: Sequence[Any] | Any | None) -> None:
        """Stop watching some models, or all."""
        if models is None:
            gone, kept = self._watched, []
        else:
            listed = list(models) if isinstance(models, (list, tuple)) else [models]
            gone = [pair for pair in self._watched if any(pair[0] is one for one in listed)]
            kept = [pair for pair in self._watched if pair not in gone]
        self._watched = kept
        for _, watched in gone:
            watched.remove()
