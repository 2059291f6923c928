"""The order of metrics in every view: which of a run's metrics people should see first."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

from epochal.records import Axis
from epochal.series.goals import guess_goal, is_evaluation


class Importance(IntEnum):
    """How important a metric is; less is more, and among equals the first logged comes first.

    ``GOAL`` is a goal that the program declared with ``define``, not one that the name suggests.
    The five roles follow. ``SET`` is a number that the program set with ``run.summary``.
    ``EVALUATION`` is what an evaluation measured, or a score by its name, unless it is of the
    training data. ``OWN`` is every other metric of the program. ``TIMING`` are durations, rates and
    counters of progress, ``MACHINE`` the readings of the machine and the phases of a step, and
    ``TENSOR`` the series that exist once for each parameter or layer.
    """

    GOAL = 0
    LOSS = 1
    EVAL_LOSS = 2
    LR = 3
    NORM = 4
    THROUGHPUT = 5
    SET = 6
    EVALUATION = 7
    OWN = 8
    TIMING = 9
    MACHINE = 10
    TENSOR = 11

    @property
    def is_detail(self) -> bool:
        """Whether there may be hundreds of such metrics: of the machine and of single tensors."""
        return self >= Importance.MACHINE

    @property
    def is_result(self) -> bool:
        """Whether such a metric says how well the training did, and not how it is run."""
        return self <= Importance.EVALUATION and self not in _OF_THE_LOOP


_OF_THE_LOOP = (Importance.LR, Importance.NORM, Importance.THROUGHPUT)
_BY_ROLE = {
    "loss": Importance.LOSS,
    "eval_loss": Importance.EVAL_LOSS,
    "lr": Importance.LR,
    "norm": Importance.NORM,
    "throughput": Importance.THROUGHPUT,
}
_TENSORS = ("params/", "grads/", "update_ratio/", "running_stats/", "activations/", "abs_max/")
_MACHINE = ("system/", "gpu/", "memory/", "resources/", "phase/")
_TRAINING = re.compile(r"train(ing)?[/._]")
_TIMING = re.compile(
    r"(.*_)?(duration|time|runtime|elapsed|seconds|latency|throughput|fps|mfu|sol)(_m?s)?"
    r"|.*_(ms|per_s|per_sec|per_second)|(.*_)?tokens|(global_)?step|epoch|iteration"
)


def importance(
    name: str, *, role: str | None = None, is_declared: bool = False, axis: Axis = "step"
) -> Importance:
    """Return how important a metric is.

    ``is_declared`` says that the program declared its goal. A metric whose name is that of a role
    counts as having it. Numbers that were set with ``run.summary`` have the axis ``none``.
    """
    if is_declared:
        return Importance.GOAL
    known = _BY_ROLE.get(role or name) or _by_name(name)
    return Importance.SET if axis == "none" and known in _UNTIMED else known


# What a number that was set may look like by its name; a duration stays one.
_UNTIMED = (Importance.EVALUATION, Importance.OWN)


@lru_cache(maxsize=4096)
def _by_name(name: str) -> Importance:
    lowered = name.lower()
    if lowered.startswith(_TENSORS):
        return Importance.TENSOR
    if lowered.startswith(_MACHINE):
        return Importance.MACHINE
    last = lowered.replace(".", "/").rpartition("/")[2]
    if _TIMING.fullmatch(last):
        return Importance.TIMING
    is_score = guess_goal(name) is not None and not last.endswith("loss")
    if is_evaluation(name) or (is_score and not _TRAINING.match(lowered)):
        return Importance.EVALUATION
    return Importance.OWN
