"""A GPU that throttles: because of temperature, its power limit or another reason."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

from epochal.format import format_duration
from epochal.health.finding import Severity
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds
from epochal.records import finite

if TYPE_CHECKING:
    from epochal.health.context import Context

_AT_FULL_SPEED = frozenset({"", "idle", "no cap", "not supported"})
_THERMAL = "thermal cap"
_POWER = "power cap"
_REASONS = {_THERMAL: "heat", _POWER: "its power limit"}
_ADVICE = {
    _THERMAL: "Check fans, airflow and room temperature; a lower power limit loses less speed than "
    "heat does.",
    _POWER: "Compare the power limit with the board's default (nvidia-smi -q -d POWER); if it is "
    "the default, the work is dense and this is the highest speed of the board.",
}
_OTHER_ADVICE = (
    "Look for locked application clocks, a sync boost group or a hardware slowdown "
    "(nvidia-smi -q -d PERFORMANCE)."
)


@dataclass(slots=True)
class _Gpu:
    """One GPU: what it was capped by and since when; the clocks at which it worked in health."""

    clocks: deque[float] = field(default_factory=lambda: deque(maxlen=60))
    word: str = ""
    since: float | None = None


class GpuThrottling(Rule):
    """A cap that lasts and costs clock; the loss is against the greatest clock, or the usual one.

    Data-centre GPUs touch their power limit in dense work by design: that alone is not a fault.
    """

    name = "gpu-throttling"
    group = "speed"
    meaning = "A GPU lowers its clock because of a temperature or power limit."
    healthy = "The full clock. At the power limit in dense work, a tenth to a quarter less."
    reports = {
        "info": "30 % less at the power limit, from the beginning on.",
        "warning": (
            "A temperature limit and 5 % less clock. Or another limit and 15 % less. Or 15 % "
            "less than before, for 20 s."
        ),
        "error": "Half of the clock.",
    }
    kinds = frozenset({"gpu", "event"})
    replaces_text = True
    release = 2

    class Thresholds(RuleThresholds):
        # Under heat the clock is cut in steps of a few percent: any lasting loss is worth a look.
        thermal_share: float = 0.05
        # Data-centre GPUs run dense work at their power limit by design, a tenth or two below the
        # greatest clock; only more than that is a limit set low or a supply that fails.
        power_share: float = 0.3
        other_share: float = 0.15
        # Or a loss like this against the clock the same GPU held in this run before.
        fall_share: float = 0.15
        # Below this use the clock says nothing: an idle GPU lowers it by itself.
        min_util_pct: float = 20.0
        # One record of ten seconds may be a moment; two are not.
        lasting_s: float = 20.0
        baseline_min: int = 3

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._gpus: dict[tuple[int, str], _Gpu] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check a GPU's record; an event only marks the start of throttling."""
        record = observation.record
        if observation.kind == "event":
            if record.get("name") == "gpu-throttle":
                gpu = self._gpu(observation)
                word = _word(record.get("throttle"))
                if word and not gpu.word:
                    gpu.since = observation.t
                gpu.word = word
            return ()
        word = _word(record.get("throttle"))
        clock, greatest = _clock(record, "clock"), _clock(record, "max_clock")
        if clock is None:
            return ()
        return self._judge(observation, self._gpu(observation), word, clock, greatest)

    def _gpu(self, observation: Observation) -> _Gpu:
        key = (observation.rank, f"{observation.writer}/{observation.record.get('id', 0)}")
        return self._gpus.setdefault(key, _Gpu())

    def _judge(
        self, observation: Observation, gpu: _Gpu, word: str, clock: float, greatest: float | None
    ) -> Iterable[Verdict]:
        limits = self.thresholds
        subject = f"gpu/{observation.record.get('id', 0)}/clock"
        use = finite(observation.record.get("gpu_util"))
        works = use is None or use >= limits.min_util_pct
        if not word:
            if works:
                gpu.clocks.append(clock)
            gpu.word, gpu.since = "", None
            yield Verdict(subject, active=False)
            return
        if not works:
            return
        covered_s = finite(observation.record.get("interval_s")) or 0.0
        gpu.since = observation.t - covered_s if gpu.since is None else gpu.since
        gpu.word = word
        usual = _usual(gpu.clocks, limits)
        if not _costs(word, clock, greatest, usual, limits):
            gpu.clocks.append(clock)
            yield Verdict(subject, active=False)
        elif observation.t - gpu.since >= limits.lasting_s:
            verdict = _described(subject, observation, word, clock, usual or greatest, gpu.since)
            # From the beginning on it may be all that the board can do with dense work.
            is_known = word == _POWER and not _fell(clock, usual, limits)
            yield verdict._replace(severity="info") if is_known else verdict


def _clock(record: Any, name: str) -> float | None:
    value = finite(record.get(name))
    return value if value is not None and value > 0 else None


def _word(value: Any) -> str:
    return value if isinstance(value, str) and value not in _AT_FULL_SPEED else ""


def _usual(clocks: deque[float], limits: GpuThrottling.Thresholds) -> float | None:
    return median(clocks) if len(clocks) >= limits.baseline_min else None


def _costs(
    word: str,
    clock: float,
    greatest: float | None,
    usual: float | None,
    limits: GpuThrottling.Thresholds,
) -> bool:
    """Whether the clock is lower than this cap explains by design."""
    if word != _THERMAL and _fell(clock, usual, limits):
        return True
    share = {_THERMAL: limits.thermal_share, _POWER: limits.power_share}.get(
        word, limits.other_share
    )
    bound = max((c for c in (greatest, usual) if c is not None), default=None)
    if bound is None:
        return word == _THERMAL  # heat is worth a word even where no clock can be compared
    return clock < (1 - share) * bound


def _fell(clock: float, usual: float | None, limits: GpuThrottling.Thresholds) -> bool:
    return usual is not None and clock < (1 - limits.fall_share) * usual


def _described(
    subject: str,
    observation: Observation,
    word: str,
    clock: float,
    full: float | None,
    since: float,
) -> Verdict:
    gpu = observation.record.get("id", 0)
    reason = _REASONS.get(word, "a cap of its driver or board")
    evidence: dict[str, float | int | str] = {"reason": word, "clock_mhz": clock}
    cost = ""
    severity: Severity = "warning"
    if full is not None and full > 0:
        lost = 100 * (1 - clock / full)
        evidence |= {"full_mhz": full, "lost_pct": round(lost, 1)}
        cost = f" instead of {full:.0f}, {lost:.0f} % less"
        severity = "error" if lost >= 50 else "warning"
    temperature = finite(observation.record.get("temperature"))
    heat = ""
    if temperature is not None:
        evidence["temperature"] = temperature
        heat = f" at {temperature:.0f} °C"
    return Verdict(
        subject,
        active=True,
        severity=severity,
        sentence=f"GPU {gpu} is throttled by {reason}{heat}: it has run at {clock:.0f} MHz{cost}, "
        f"for {format_duration(observation.t - since)}.",
        evidence=evidence,
        advice=_ADVICE.get(word, _OTHER_ADVICE),
    )
