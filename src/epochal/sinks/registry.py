"""Finds the sink of a name; its module is loaded when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType

from epochal.reporting import checked_sink
from epochal.sinks.sink import Sink

_MEMBERS: Mapping[str, str] = MappingProxyType(
    {
        "json_log": "JsonLogSink",
        "plain_log": "PlainLogSink",
        "tensorboard": "TensorBoardSink",
        "wandb": "WandbSink",
        "aim": "AimSink",
        "mlflow": "MlflowSink",
        "trackio": "TrackioSink",
    }
)


def make_sink(name: str) -> Sink:
    """A new, unopened sink; raises ``UsageError`` for a name there is none of."""
    module = importlib.import_module(f"epochal.sinks.{checked_sink(name)}")
    sink: Sink = getattr(module, _MEMBERS[name])()
    return sink
