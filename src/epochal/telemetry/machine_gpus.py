"""The GPUs of this machine, of any vendor: the only module that knows every vendor.

A machine has the GPUs of one vendor: the first that finds a visible one, of NVIDIA, AMD and Apple.
So ids never clash. Where NVIDIA's and AMD's stand side by side, AMD's come first for a program that
is told by ROCR_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES, which only ROCm reads.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from epochal.telemetry.amd import AmdSource
from epochal.telemetry.apple import AppleSource
from epochal.telemetry.gpu import GPU_METRICS, GpuModel, GpuSample, GpuSource
from epochal.telemetry.nvidia import NvidiaSource
from epochal.telemetry.source import Metric, closed_error
from epochal.telemetry.visible import EVERY_GPU

_FOR_AMD = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


class MachineGpus:
    """Samples the visible GPUs of this machine, with ``every`` those hidden from it as well.

    ``quick`` is for the training process, as ``NvidiaSource`` says. ``vendors`` are the sources to
    choose from, in their order; left out they are all there are.
    """

    kind: ClassVar[str] = "gpu"
    metrics: ClassVar[tuple[Metric, ...]] = GPU_METRICS

    def __init__(
        self,
        *,
        every: bool = False,
        quick: bool = False,
        vendors: Sequence[GpuSource] | None = None,
    ) -> None:
        self._vendors = vendors_of(every=every, quick=quick) if vendors is None else vendors
        self._chosen: GpuSource | None = None
        self._is_looked_up = False
        self.why_absent: str | None = None
        self._closed = False

    @property
    def failures(self) -> int:
        """How many readings failed for another reason than not being offered."""
        return sum(one.failures for one in self._asked())

    @property
    def last_failure(self) -> str | None:
        """One of those failures in words."""
        said = [one.last_failure for one in self._asked() if one.last_failure]
        return said[-1] if said else None

    def probe(self) -> bool:
        """Return whether a GPU is visible; looked up once, at the first call."""
        if not self._is_looked_up and not self._closed:
            self._is_looked_up = True
            self._chosen = next((one for one in self._vendors if one.probe()), None)
            for one in self._vendors:
                if one is not self._chosen:
                    one.close()
            if self._chosen is None:
                reasons = [one.why_absent for one in self._vendors if one.why_absent]
                self.why_absent = "; ".join(reasons) or "no vendor's GPUs are looked for"
        return self._chosen is not None

    def sample(
        self, only: Collection[int] | None = None, *, light: bool = False
    ) -> tuple[GpuSample, ...]:
        """Read every visible GPU, or those of some ids; use and power are since the last call."""
        source = self._source()
        return () if source is None else source.sample(only, light=light)

    def recent_use(
        self, since: float, *, only: Collection[int] | None = None
    ) -> dict[int, list[tuple[float, float]]]:
        """How busy each GPU was since a moment, as far as its driver remembers."""
        source = None if self._closed else self._source()
        return {} if source is None else source.recent_use(since, only=only)

    def pids(self) -> dict[int, frozenset[int] | None]:
        """For each visible GPU by ``id``, the processes that compute on it; None if unknown."""
        source = self._source()
        return {} if source is None else source.pids()

    def gpu_models(self) -> tuple[GpuModel, ...]:
        """Describe every visible GPU."""
        source = self._source()
        return () if source is None else source.gpu_models()

    def close(self) -> None:
        """Release everything; a second call does nothing."""
        for one in self._vendors:
            one.close()
        self._closed = True

    def _source(self) -> GpuSource | None:
        if self._closed:
            raise closed_error(self)
        self.probe()
        return self._chosen

    def _asked(self) -> Sequence[GpuSource]:
        """The chosen vendor; those that found nothing while there is none."""
        return self._vendors if self._chosen is None else [self._chosen]


def vendors_of(
    *, every: bool = False, quick: bool = False, environ: Mapping[str, str] | None = None
) -> list[GpuSource]:
    """A source for each vendor, the one to ask first in front."""
    nvidia = NvidiaSource(EVERY_GPU if every else None, quick=quick)
    amd = AmdSource(every=every)
    variables = os.environ if environ is None else environ
    is_for_amd = any(name in variables for name in _FOR_AMD)
    return [amd, nvidia, AppleSource()] if is_for_amd else [nvidia, amd, AppleSource()]
