"""How busy a GPU's parts are, from the counters Hopper and newer keep (NVML's GPM).

Utilisation says only that some kernel ran; these say how much of the chip it kept working.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Field of a sample: NVML's metric, in percent.
_METRICS: Mapping[str, str] = {
    "sm_active": "NVML_GPM_METRIC_SM_UTIL",
    "tensor_active": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
    "dram_active": "NVML_GPM_METRIC_DRAM_BW_UTIL",
}


class GpmCounters:
    """The counters of one GPU by its NVML handle; where there are none, every reading is empty.

    ``why_absent`` then says why.
    """

    def __init__(self, handle: Any, *, nvml: Any) -> None:
        self._handle = handle
        self._nvml = nvml
        self._samples: list[Any] = []
        self._has_first = False
        self.why_absent: str | None = None

    def shares(self) -> dict[str, float]:
        """Percent of the time since the last call that each part worked; at first nothing."""
        if self.why_absent is not None:
            return {}
        try:
            return self._read()
        except self._nvml.NVMLError as error:
            self.why_absent = f"GPM does not answer: {error}"
        except AttributeError as error:
            self.why_absent = f"this version of nvidia-ml-py knows no GPM: {error}"
        self.close()
        return {}

    def close(self) -> None:
        """Give the samples back to NVML."""
        while self._samples:
            self._nvml.nvmlGpmSampleFree(self._samples.pop())
        self._has_first = False

    def _read(self) -> dict[str, float]:
        if not self._samples:
            if not self._nvml.nvmlGpmQueryDeviceSupport(self._handle).isSupportedDevice:
                self.why_absent = "this GPU keeps no such counters"
                return {}
            self._samples = [self._nvml.nvmlGpmSampleAlloc() for _ in range(2)]
        self._samples.reverse()
        self._nvml.nvmlGpmSampleGet(self._handle, self._samples[1])
        if not self._has_first:
            self._has_first = True
            return {}
        return self._between(*self._samples)

    def _between(self, before: Any, after: Any) -> dict[str, float]:
        question = self._nvml.c_nvmlGpmMetricsGet_t()
        question.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        question.numMetrics = len(_METRICS)
        question.sample1, question.sample2 = before, after
        for place, name in enumerate(_METRICS.values()):
            question.metrics[place].metricId = getattr(self._nvml, name)
        answers = self._nvml.nvmlGpmMetricsGet(question).metrics
        return {
            field: round(float(answers[place].value), 1)
            for place, field in enumerate(_METRICS)
            if answers[place].nvmlReturn == self._nvml.NVML_SUCCESS
            and 0 <= answers[place].value <= 100
        }
