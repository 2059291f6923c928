"""Reports jumps of a loss or a gradient, and lowers the learning rate for them where asked to."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from epochal.errors import UsageError
from epochal.torch.control.observed import check_state, observed_number, observed_step
from epochal.torch.schedule.scheduler import Scheduler, check_factor, check_inner, check_length
from epochal.torch.schedule.wrappers import PermanentReduction, TemporaryOverride

# The median distance from the median of normal noise is 0.6745 standard deviations.
_DEVIATION_PER_DISTANCE = 1.4826

_COUNTS = ("jumps", "calm", "in_vain")  # of a state; older ones lack them


@dataclass(frozen=True, slots=True)
class Cut:
    """One cut of the rate: why, from which rate to which, and whether it comes back.

    A reported one changes nothing: the guard was not asked to act.
    """

    step: int
    kind: Literal["reported", "temporary", "permanent"]
    reason: str
    lr_before: float
    lr_after: float


@dataclass(slots=True, kw_only=True)
class LossGuard(Scheduler):
    """Another schedule, guarded: jumps are reported and, with `acts=True`, halve the rate.

    A halved rate comes back over `blend_steps`. Trainings with planted faults were not lost less
    often with the guard, so it does not act by itself. A value that is not finite is a jump. So is
    a loss more than `deviations` above the usual ones and at least `least_rise` of their size away,
    and a gradient norm of `norm_factor` times the usual. Usual is the median of the last `window`
    values without earlier jumps, judged once `warmup` of them are known. One batch is no reason:
    `lasting` jumps in a row are, and a value that is not finite is at once. A cut comes back. When
    the loss was not usual again for `recovery` steps after `most_temporary` cuts, further ones
    stay, `most_permanent` at most. After a cut nothing is judged for `cooldown` steps, save values
    that are not finite.
    """

    inner: Scheduler
    acts: bool = False
    window: int = 100
    warmup: int = 50
    cooldown: int = 50
    deviations: float = 6.0
    least_rise: float = 0.1
    norm_factor: float = 10.0
    lasting: int = 3
    recovery: int = 25
    factor: float = 0.5
    blend_steps: int = 50
    most_temporary: int = 2
    most_permanent: int = 5
    cuts: list[Cut] = field(default_factory=list, init=False)
    _guarded: Scheduler = field(init=False, repr=False)
    _losses: deque[float] = field(init=False, repr=False)
    _norms: deque[float] = field(init=False, repr=False)
    _quiet_until: int = field(default=0, init=False, repr=False)
    _jumps: int = field(default=0, init=False, repr=False)  # in a row
    _calm: int = field(default=0, init=False, repr=False)  # usual losses in a row
    _in_vain: int = field(default=0, init=False, repr=False)  # cuts since the loss was usual

    def __post_init__(self) -> None:
        check_inner(self.inner)
        for name in ("window", "blend_steps", "lasting", "recovery"):
            check_length(getattr(self, name), name=name)
        for name in ("warmup", "cooldown", "most_temporary", "most_permanent"):
            check_length(getattr(self, name), name=name, least=0)
        check_factor(self.factor, name="factor")
        if self.factor >= 1:
            raise UsageError(f"factor must be below 1 to lower a rate, got {self.factor!r}.")
        if self.warmup > self.window:
            raise UsageError(f"warmup={self.warmup} must not be above window={self.window}.")
        if not (self.deviations > 0 and self.least_rise >= 0 and self.norm_factor > 1):
            raise UsageError(
                "deviations must be above 0, least_rise 0 or more and norm_factor above 1."
            )
        self._guarded = self.inner
        self._losses = deque(maxlen=self.window)
        self._norms = deque(maxlen=self.window)

    def lr(self, step: int) -> float:
        """Return the rate of a step with all cuts so far."""
        return self._guarded.lr(step)

    def horizon(self) -> int:
        """Return what the guarded schedule shows."""
        return self._guarded.horizon()

    def observe(self, step: int, loss: float, norm: float | None = None) -> Cut | None:
        """Take in one step's loss and gradient norm; returns the cut it led to, if any.

        The next step's rate has it. Values are Python numbers: reading them from a GPU waits for
        it, so guard every few steps there.
        """
        step, loss = observed_step(step), observed_number(loss, name="loss")
        norm = None if norm is None else observed_number(norm, name="norm")
        reason = self._jump(loss, norm, step)
        if reason is None:
            self._learn(loss, norm)
            self._rest(step)
            return None
        self._jumps, self._calm = self._jumps + 1, 0
        is_finite = math.isfinite(loss) and (norm is None or math.isfinite(norm))
        if is_finite and self._jumps < self.lasting:
            return None
        return self._cut(step, reason)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly here after a resume."""
        return {
            "losses": list(self._losses),
            "norms": list(self._norms),
            "quiet_until": self._quiet_until,
            "jumps": self._jumps,
            "calm": self._calm,
            "in_vain": self._in_vain,
            "cuts": [
                [cut.step, cut.kind, cut.reason, cut.lr_before, cut.lr_after] for cut in self.cuts
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what :meth:`state_dict` gave."""
        needed = {name: one for name, one in self.state_dict().items() if name not in _COUNTS}
        check_state(state, needed=needed, owner="LossGuard")
        self._losses = deque(state["losses"], maxlen=self.window)
        self._norms = deque(state["norms"], maxlen=self.window)
        self._quiet_until = int(state["quiet_until"])
        self._jumps, self._calm, self._in_vain = (int(state.get(name, 0)) for name in _COUNTS)
        self.cuts = []
        self._guarded = self.inner
        for step, kind, reason, before, after in state["cuts"]:
            self._apply(Cut(step, kind, reason, before, after))

    def _jump(self, loss: float, norm: float | None, step: int) -> str | None:
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if norm is not None and not math.isfinite(norm):
            return f"the gradient norm is {norm}"
        if step < self._quiet_until:
            return None
        if len(self._losses) >= max(self.warmup, 2):
            usual = median(self._losses)
            noise = median(abs(one - usual) for one in self._losses) * _DEVIATION_PER_DISTANCE
            if loss - usual > max(self.deviations * noise, self.least_rise * abs(usual)):
                return f"the loss jumped to {loss:.4g} from {usual:.4g}"
        if norm is not None and len(self._norms) >= max(self.warmup, 2):
            usual = median(self._norms)
            if usual > 0 and norm > self.norm_factor * usual:
                return f"the gradient norm jumped to {norm:.4g} from {usual:.4g}"
        return None

    def _rest(self, step: int) -> None:
        """Count usual losses, which say that the cuts before them have helped."""
        self._jumps = 0
        if step >= self._quiet_until:
            self._calm += 1
            if self._calm >= self.recovery:
                self._in_vain = 0

    def _learn(self, loss: float, norm: float | None) -> None:
        self._losses.append(loss)
        if norm is not None:
            self._norms.append(norm)

    def _cut(self, step: int, reason: str) -> Cut | None:
        if not self.acts and step < self._quiet_until:
            self._quiet_until = step + 1 + self.cooldown  # a loss that stays nan is reported once
            return None
        num_permanent = sum(cut.kind == "permanent" for cut in self.cuts)
        comes_back = self._in_vain < self.most_temporary
        if not comes_back and num_permanent >= self.most_permanent:
            return None
        before = self.lr(step + 1)
        if self.acts:
            self._in_vain += 1
            kind: Literal["temporary", "permanent"] = "temporary" if comes_back else "permanent"
            cut = Cut(step, kind, reason, before, before * self.factor)
        else:
            cut = Cut(step, "reported", reason, before, before)
        self._apply(cut)
        self._quiet_until = step + 1 + self.cooldown
        self._report(cut)
        return cut

    def _apply(self, cut: Cut) -> None:
        at_step = cut.step + 1
        if cut.kind == "temporary":
            self._guarded = TemporaryOverride(
                self._guarded, cut.lr_after, at_step=at_step, blend_steps=self.blend_steps
            )
        elif cut.kind == "permanent":
            self._guarded = PermanentReduction(self._guarded, self.factor, at_step)
        self.cuts.append(cut)

    def _report(self, cut: Cut) -> None:
        from epochal.run.current import OPEN_RUNS
        from epochal.run.run import recorder_of

        run = OPEN_RUNS.current
        if run is None:
            return
        if cut.kind == "reported":
            run.event("loss-jump", reason=cut.reason, at_step=cut.step)
            recorder_of(run).console.notice(
                f"step {cut.step}: {cut.reason}; LossGuard(acts=True) would lower the rate."
            )
        else:
            run.event(
                "lr-cut",
                kind=cut.kind,
                reason=cut.reason,
                at_step=cut.step,
                lr_before=cut.lr_before,
                lr_after=cut.lr_after,
            )
            recorder_of(run).console.notice(
                f"step {cut.step}: {cut.reason}; the learning rate goes from {cut.lr_before:.3g}"
                f" to {cut.lr_after:.3g}"
                + (" and comes back." if cut.kind == "temporary" else " for good.")
            )
