"""The GPUs of this machine, of any vendor, and which of them a run uses.

A machine has the GPUs of one vendor: the first that finds a visible one. NVIDIA is asked first;
AMD is first for a program that is told by ROCR_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES, which only
ROCm reads.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from epochal.telemetry.amd import AmdSource
from epochal.telemetry.gpu import GpuModel, GpuSample, GpuSource
from epochal.telemetry.nvidia import EVERY_GPU, NvidiaSource

# How long nothing is taken for granted while no process of the run is seen on a GPU.
_PATIENCE_S = 60.0


class MachineGpus(GpuSource):
    """Samples the visible GPUs of this machine, with ``every`` those hidden from it as well.

    ``quick`` is for the training process, as ``NvidiaSource`` says. ``vendors`` are the sources to
    choose from, in their order; left out they are all there are.
    """

    def __init__(
        self,
        *,
        every: bool = False,
        quick: bool = False,
        vendors: Sequence[GpuSource] | None = None,
    ) -> None:
        super().__init__()
        self._vendors = vendors_of(every=every, quick=quick) if vendors is None else vendors
        self._chosen: GpuSource | None = None

    @property
    def failures(self) -> int:
        return self._source().failures

    @property
    def last_failure(self) -> str | None:
        return self._source().last_failure

    def sample(
        self, only: Collection[int] | None = None, *, light: bool = False
    ) -> tuple[GpuSample, ...]:
        return self._source().sample(only, light=light)

    def gpu_models(self) -> tuple[GpuModel, ...]:
        return self._source().gpu_models()

    def close(self) -> None:
        super().close()
        for one in self._vendors:
            one.close()

    def _open(self) -> Sequence[Any]:
        return self._source()._devices

    def _source(self) -> GpuSource:
        """The vendor with a visible GPU, looked up at the first call; else a source of none."""
        if self._chosen is None:
            self._chosen = next((one for one in self._vendors if one.probe()), GpuSource())
            for one in self._vendors:
                if one is not self._chosen:
                    one.close()
            if self._chosen not in self._vendors:
                self.why_absent = "; ".join(one.why_absent or "" for one in self._vendors)
        return self._chosen


def vendors_of(
    *, every: bool = False, quick: bool = False, environ: Mapping[str, str] | None = None
) -> list[GpuSource]:
    """A source for each vendor, the one to ask first in front."""
    sources = [NvidiaSource(EVERY_GPU if every else None, quick=quick), AmdSource(every=every)]
    variables = os.environ if environ is None else environ
    is_for_amd = "ROCR_VISIBLE_DEVICES" in variables or "HIP_VISIBLE_DEVICES" in variables
    return sources[::-1] if is_for_amd else sources


class UsedGpus:
    """Learns which GPUs a run uses; a GPU that was used once stays so.

    A process that may see eight GPUs often works on one. The driver tells which processes compute
    on each; where it hides them, as in most containers, every GPU that is visible counts.
    ``visible`` are the ids the run could use; with ``others``, it may use more than those.
    """

    def __init__(self, visible: Collection[int], *, others: bool = False) -> None:
        self.ids: frozenset[int] = frozenset(visible) if len(visible) == 1 else frozenset()
        self._visible = frozenset(visible)
        self._others = others
        self._is_seen = False

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing more to learn."""
        return self._is_seen and self.ids >= self._visible and not self._others

    def learn(
        self, computing: Mapping[int, frozenset[int] | None], *, own: Collection[int], age_s: float
    ) -> None:
        """Take in who computes where; ``own`` are the run's processes, ``age_s`` the run's age."""
        seen = {gpu for gpu, pids in computing.items() if pids and not pids.isdisjoint(own)}
        if seen:
            # What was only presumed gives way to what is known.
            self.ids = frozenset(seen) if not self._is_seen else self.ids | seen
            self._is_seen = True
        elif not self._is_seen and age_s >= _PATIENCE_S and not any(computing.values()):
            self.ids = self._visible
