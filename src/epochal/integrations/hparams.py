"""Hyperparameters as TensorBoard takes them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochal.run.run import Run
from epochal.values import element_count, plain_json


def checked_hparams(hparams: Any, metrics: Any, domains: Any) -> dict[str, Any]:
    """The hyperparameters as plain values; raises TypeError or ValueError as torch does."""
    if type(hparams) is not dict or type(metrics) is not dict:
        raise TypeError("hparam_dict and metric_dict should be dictionary.")
    if not isinstance(domains or {}, dict):
        raise TypeError("hparam_domain_discrete should be a dictionary.")
    for name, values in (domains or {}).items():
        kind = type(hparams.get(name))
        is_known = name in hparams and isinstance(values, list)
        if not is_known or not all(isinstance(value, kind) for value in values):
            raise TypeError(
                f"hparam_domain_discrete[{name}] should be a list of values of the type of"
                f" hparam_dict[{name}]."
            )
    return {name: _plain(name, value) for name, value in hparams.items()}


def write_hparams(
    run: Run,
    hparams: Mapping[str, Any],
    metrics: Mapping[str, Any],
    domains: Mapping[str, Any] | None,
    step: int,
) -> None:
    """Add hyperparameters to a run's configuration, and the metrics that they led to."""
    run.config.update(hparams)
    if domains:
        run.event("hparams-domains", domains=plain_json(domains))
    if metrics:
        run.log(metrics, step)


def hparams_folder(folder: Path, run_name: str | None) -> Path:
    """Where another set of hyperparameters is recorded.

    TensorBoard puts it into a folder within the writer's. Readers of runs do not look into runs, so
    a folder of ours lies beside the writer's; a ``run_name`` that leads elsewhere is followed.
    """
    inner = Path(os.path.normpath(folder / (run_name or str(time.time()))))
    if inner == folder or folder not in inner.parents:
        return inner
    return folder.with_name(f"{folder.name}_{'_'.join(inner.relative_to(folder).parts)}")


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if element_count(value) == 1 and hasattr(value, "item"):
        return value.item()
    raise ValueError(
        f"hyperparameter {name!r} should be one of int, float, str, bool, or torch.Tensor, not"
        f" {type(value).__name__}."
    )
