"""Rules that find causes, by what follows from them: a consequence is not reported beside one."""

from __future__ import annotations

# The weights change too little, or in vain: nothing falls and nothing moves.
OF_STANDSTILL = ("rate-ended", "gradients-add-up", "loss-sign", "loss-summed")
# Steps are too large or go the wrong way: losses, norms and weights grow.
OF_INSTABILITY = ("gradients-add-up", "loss-sign", "loss-summed")
# The model computes something else in evaluation: its figures are not those of what was trained.
OF_EVALUATION = ("eval-mode", "stale-batchnorm")
