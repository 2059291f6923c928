"""``watch`` and ``unwatch``: hands models over to ``epochal.watch``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from epochal.run.run import Run
from epochal.wandb.notices import not_supported


class Watches:
    """The models of one run that are watched."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._watched: list[tuple[Any, Any]] = []

    def add(self, models: Any, log: str | None, every: int, *, log_graph: bool) -> None:
        """Watch one model or several, every so many optimizer steps."""
        from torch import nn

        if log not in (None, "gradients", "parameters", "all"):
            raise ValueError("log must be 'gradients', 'parameters', 'all' or None")
        listed = list(models) if isinstance(models, (list, tuple)) else [models]
        for model in listed:
            if not isinstance(model, nn.Module):
                raise TypeError(f"Expected a pytorch model, an nn.Module. Received {type(model)}")
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
        listed = list(models) if isinstance(models, (list, tuple)) else [models]
        watched = self._watched
        gone = [pair for pair in watched if models is None or any(pair[0] is m for m in listed)]
        self._watched = [pair for pair in watched if pair not in gone]
        for _, one in gone:
            one.remove()
