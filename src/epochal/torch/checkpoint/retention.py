"""Which checkpoints stay and which go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from epochal.errors import UsageError
from epochal.torch.checkpoint.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Retention:
    """How many checkpoints of each kind stay; None keeps all.

    The latest and the best always stay. `every` keeps rolling ones for good whose step, counted
    from 1, is a multiple of it.
    """

    rolling: int | None = 3
    epoch: int | None = None
    emergency: int | None = 2
    every: int | None = None

    def __post_init__(self) -> None:
        for name in ("rolling", "epoch", "emergency"):
            number = getattr(self, name)
            if number is not None and number < 0:
                raise UsageError(f"{name} must be at least 0 or None, got {number}.")
        if self.every is not None and self.every < 1:
            raise UsageError(f"every must be at least 1 or None, got {self.every}.")

    def superseded(self, manifests: Sequence[Manifest], *, keep: Iterable[str]) -> list[Manifest]:
        """Those that may go, by step; `keep` names ones that stay whatever their kind."""
        kept = set(keep)
        # By age and not by step: after going back, the steps that were given up are the old ones.
        by_age = sorted(manifests, key=lambda m: (m.saved, m.step))
        limits = {"rolling": self.rolling, "epoch": self.epoch, "emergency": self.emergency}
        going = []
        for kind, limit in limits.items():
            of_kind = [m for m in by_age if m.kind == kind and not self._is_major(m)]
            if limit is not None:
                going += of_kind[: len(of_kind) - limit] if limit < len(of_kind) else []
        return sorted((m for m in going if m.name not in kept), key=lambda m: m.step)

    def _is_major(self, manifest: Manifest) -> bool:
        return (
            self.every is not None
            and manifest.kind == "rolling"
            and (manifest.step + 1) % self.every == 0
        )
