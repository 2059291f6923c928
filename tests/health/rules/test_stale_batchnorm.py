from __future__ import annotations

from collections.abc import Sequence

from epochal.health.rules.stale_batchnorm import StaleBatchNorm
from epochal.records import Record
from tests.health.machine_records import layers, metrics, opened

STATISTICS = "running_stats/{}/norm"


def watched(number: int, norms: Sequence[float]) -> Record:
    return metrics(number, layers(number, STATISTICS, list(norms)))


def test_statistics_that_never_move_are_found() -> None:
    (found,) = opened(StaleBatchNorm, [watched(n, [1.0 + n, 4.0]) for n in range(10)])
    assert (found.series, found.severity) == ("running_stats/b/norm", "warning")
    assert "BatchNorm b have not changed since step 0" in found.sentence


def test_statistics_that_move_are_in_order() -> None:
    assert opened(StaleBatchNorm, [watched(n, [1.0 + 1e-6 * n]) for n in range(50)]) == []


def test_two_equal_ones_are_no_proof() -> None:
    assert opened(StaleBatchNorm, [watched(n, [1.0 + n // 2]) for n in range(50)]) == []
