"""One file per contender; the order here is the order of the tables."""

from __future__ import annotations

from benchmarks.contender import Contender
from benchmarks.contenders.epochal import Epochal
from benchmarks.contenders.json_flush import JsonFlush
from benchmarks.contenders.mlflow import MLflow
from benchmarks.contenders.msgspec_write import MsgspecWrite
from benchmarks.contenders.null import Null
from benchmarks.contenders.tensorboard import TensorBoard
from benchmarks.contenders.tensorboardx import TensorBoardX
from benchmarks.contenders.trackio import Trackio
from benchmarks.contenders.wandb import Wandb

BARE = MsgspecWrite.name
PLAIN = JsonFlush.name
OURS = Epochal.name
SLOW_TO_START = {MLflow.name}  # five seconds a play: a quick run names it and goes on


def every_contender() -> tuple[Contender, ...]:
    return (
        Null(),
        MsgspecWrite(),
        JsonFlush(),
        Epochal(),
        Trackio(),
        Wandb(),
        TensorBoard(),
        TensorBoardX(),
        MLflow(),
    )
