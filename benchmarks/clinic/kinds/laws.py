"""Nature: a law of physics instead of labels, a density by its energy, and how long a life is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

MODES = 3


def _waves(points: Tensor, heights: Tensor) -> tuple[Tensor, Tensor]:
    """A sum of standing waves, and what their Laplacian is, by its negative."""
    numbers = torch.arange(1, MODES + 1, device=points.device) * torch.pi
    along, across = (points[:, :1] * numbers).sin(), (points[:, 1:] * numbers).sin()
    each = heights * along[:, :, None] * across[:, None, :]
    squares = numbers[:, None] ** 2 + numbers[None, :] ** 2
    return each.sum((1, 2)), (squares * each).sum((1, 2))


class Surface(nn.Module):
    """The height of a sheet that is held at its edges."""

    def __init__(self, width: int = 40) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        )
        self.head = nn.Linear(width, 1)

    def forward(self, points: Tensor) -> Tensor:
        edge = (points * (1 - points)).prod(1)
        out: Tensor = 16 * edge * self.head(self.layers(2 * points - 1))[:, 0]
        return out


class Physics(Task):
    """Poisson's equation: second derivatives of the network have to give the load."""

    def __init__(self) -> None:
        points = torch.rand(9000, 2)
        self.heights = torch.randn(MODES, MODES) / (1 + torch.arange(MODES * MODES).view(MODES, -1))
        load = _waves(points, self.heights)[1]
        self.unit = load.std()
        self.train, self.held_out = parted(Split(points, load / self.unit), 500)
        self.model = Surface()

    def outputs(self, inputs: Tensor) -> Any:
        with torch.enable_grad():
            points = inputs.clone().requires_grad_()
            height = self.model(points)
            (slope,) = torch.autograd.grad(height.sum(), points, create_graph=True)
            bends = [
                torch.autograd.grad(slope[:, at].sum(), points, create_graph=True)[0][:, at]
                for at in (0, 1)
            ]
        return -(bends[0] + bends[1]) / self.unit, height, inputs

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs[0], targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        true = _waves(outputs[2], self.heights)[0]
        error = (outputs[1] - true).square().mean() / true.square().mean()
        return {"height_error": float(error.sqrt())}


def pinwheel(count: int, arms: int = 5) -> Tensor:
    """Points on bent arms around a centre."""
    out, side = 1 + 0.35 * torch.randn(count), 0.1 * torch.randn(count)
    turn = 2 * torch.pi * torch.randint(arms, (count,)) / arms + 0.8 * (out - 1)
    across = torch.stack([turn.cos(), turn.sin()], 1)
    return out[:, None] * across + side[:, None] * across.flip(1) * torch.tensor([-1.0, 1.0])


class Energy(Task):
    """Noise-contrastive estimation: an energy that tells points from noise, whose density is known.

    The network learns the logarithm of the density itself, its constant included.
    """

    def __init__(self) -> None:
        points = pinwheel(16_000)
        self.train, self.held_out = parted(Split(points, points), 1000)
        self.middle, self.spread = points.mean(0), 1.2 * points.std(0)
        self.model = nn.Sequential(
            *(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))
        )

    def outputs(self, inputs: Tensor) -> Any:
        noise = self.middle + self.spread * torch.randn_like(inputs)
        return self._ratio(torch.cat([inputs, noise])).chunk(2)

    def _ratio(self, points: Tensor) -> Tensor:
        """How much more likely points are than noise, as a logarithm."""
        apart = (points - self.middle) / self.spread
        known = -0.5 * apart.square().sum(1) - (2 * torch.pi * self.spread.prod()).log()
        ratio: Tensor = -self.model(points)[:, 0] - known
        return ratio

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        real, drawn = outputs
        return functional.softplus(-real).mean() + functional.softplus(drawn).mean()

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        real, drawn = outputs
        return {"accuracy": float(((real > 0).float().mean() + (drawn < 0).float().mean()) / 2)}


FACTS, YEARS = 14, 8


def patients(count: int) -> Split:
    """Facts of patients, the year in which each was last seen, and whether that was the end."""
    facts = torch.randn(count, FACTS)
    inner = torch.tanh(facts @ torch.randn(FACTS, 5) / 2)
    risk = 0.6 * facts @ torch.randn(FACTS) / 2 + inner @ torch.randn(5)
    until = 5 * (torch.distributions.Exponential(1.0).sample((count,)) * (-risk).exp()) ** 0.6
    left = 12 * torch.rand(count)
    seen = torch.minimum(until, left).clamp(max=YEARS - 0.01)
    ended = (until <= left) & (until < YEARS)
    return Split(facts, torch.stack([seen.floor(), ended.float()], 1))


class Survival(Task):
    """The chance to die in each year, for those who lived until then; many are lost from sight."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(patients(21_000), 1000)
        self.model = nn.Sequential(
            *(nn.Linear(FACTS, 48), nn.LayerNorm(48), nn.ReLU(), nn.Dropout(0.1)),
            *(nn.Linear(48, 48), nn.LayerNorm(48), nn.ReLU(), nn.Linear(48, YEARS)),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        year, ended = targets[:, :1], targets[:, 1:]
        years = torch.arange(YEARS, device=targets.device)
        died, alive = (years == year) * ended, (years < year).float()
        cost = functional.binary_cross_entropy_with_logits(outputs, died, reduction="none")
        return (cost * (alive + died)).sum(1).mean()

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        """How often of two patients the one with more risk died first."""
        risk, (year, ended) = outputs.sigmoid().sum(1), targets.unbind(1)
        first = (year[:, None] < year[None, :]) & (ended[:, None] > 0)
        right = (risk[:, None] > risk[None, :]) & first
        return {"concordance": float(right.sum() / first.sum().clamp(min=1))}


KINDS = (
    Kind(
        "physics",
        "blind3",
        Physics,
        (OptimizerChoice("adam", 3e-3, decay="cosine"), OptimizerChoice("nadam", 1e-3)),
        steps=1000,
        batch_size=128,
        faults=(
            "rate_x30 labels_shuffled exploding_init rate_zero frozen overfitting",
            "wrong_sign schedule_unit nan_input missing_step",
        ),
    ),
    Kind(
        "energy",
        "blind3",
        Energy,
        (OptimizerChoice("adam", 2e-3, decay="linear"), OptimizerChoice("momentum", 0.05)),
        steps=1200,
        batch_size=128,
        typed=False,
        log_every=2,
        faults=(
            "rate_x30 nan_input wrong_sign one_batch rate_zero missing_parameters",
            "rate_too_small missing_zero_grad exploding_init clip_tight rate_x30",
        ),
    ),
    Kind(
        "survival",
        "blind3",
        Survival,
        (
            OptimizerChoice("adamw", 2e-3, {"weight_decay": 0.01}, decay="cosine"),
            OptimizerChoice("nesterov", 0.03),
        ),
        steps=1000,
        batch_size=64,
        faults=(
            "labels_shuffled overfitting eval_on_train dropout_in_eval missing_step rate_x30",
            "wrong_reduction rate_too_small wrong_sign nan_input unshuffled",
        ),
    ),
)
