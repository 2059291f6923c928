from __future__ import annotations

import pytest

from epochal.errors import UsageError
from epochal.torch.checkpoint.manifest import Kind, Manifest
from epochal.torch.checkpoint.retention import Retention


def made(*steps: int, kind: Kind = "rolling", saved: float | None = None) -> list[Manifest]:
    return [
        Manifest(step=s, kind=kind, saved=s if saved is None else saved, files={}) for s in steps
    ]


def gone(keep: Retention, manifests: list[Manifest], *names: str) -> list[int]:
    return [m.step for m in keep.superseded(manifests, keep=names)]


def test_the_newest_stay() -> None:
    assert gone(Retention(rolling=2), made(1, 2, 3, 4)) == [1, 2]
    assert gone(Retention(rolling=9), made(1, 2)) == []
    assert gone(Retention(rolling=0), made(1, 2)) == [1, 2]
    assert gone(Retention(rolling=None), made(1, 2)) == []


def test_latest_and_best_stay_whatever_their_age() -> None:
    assert gone(Retention(rolling=1), made(1, 2, 3), "step-1", "step-3") == [2]


def test_kinds_are_counted_apart() -> None:
    manifests = made(1, 3, 5) + made(2, 4, kind="epoch") + made(6, 7, 8, kind="emergency")
    assert gone(Retention(rolling=1), manifests) == [1, 3, 6]
    assert gone(Retention(rolling=1, epoch=1, emergency=0), manifests) == [1, 2, 3, 6, 7, 8]


def test_major_ones_stay_for_good() -> None:
    assert gone(Retention(rolling=1, every=100), made(99, 149, 199, 249, 299, 349)) == [149, 249]


def test_steps_that_were_given_up_are_the_older_ones() -> None:
    manifests = made(80, 90, 100, saved=1.0) + made(60, 70, saved=2.0)
    assert gone(Retention(rolling=2), manifests) == [80, 90, 100]


def test_misuse_names_the_argument() -> None:
    with pytest.raises(UsageError, match="epoch must be at least 0 or None"):
        Retention(epoch=-1)
    with pytest.raises(UsageError, match="every must be at least 1"):
        Retention(every=0)
