"""Models that make samples: an autoencoder, a VAE, a diffusion model and a GAN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.task import Split, Task
from benchmarks.clinic.tasks.vision import MEAN, SIZE, STD, digits

PIXELS = SIZE * SIZE


class Autoencoder(Task):
    """Clean digits from noisy ones, through sixteen numbers."""

    name = "autoencoder"
    optimizer = "momentum"
    lr = 0.4
    steps = 500
    first_layer = "0"

    def __init__(self) -> None:
        noisy, clean, _ = digits(5600, noise=0.3)
        split = Split((noisy.flatten(1) - MEAN) / STD, (clean.flatten(1) - MEAN) / STD)
        self.train, self.held_out = split.parts(600)
        self.model = nn.Sequential(
            *(nn.Linear(PIXELS, 96), nn.ReLU(), nn.Linear(96, 16)),
            *(nn.Linear(16, 96), nn.ReLU(), nn.Linear(96, PIXELS)),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs, targets)


class VaeModel(nn.Module):
    def __init__(self, codes: int = 8) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(PIXELS, 96), nn.ReLU(), nn.Linear(96, 2 * codes))
        self.decoder = nn.Sequential(nn.Linear(codes, 96), nn.ReLU(), nn.Linear(96, PIXELS))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_var = self.encoder(x).clamp(-20, 20).chunk(2, 1)
        code = mean + (0.5 * log_var).exp() * torch.randn_like(mean) if self.training else mean
        return self.decoder(code), mean, log_var


class Vae(Task):
    name = "vae"
    optimizer = "adam"
    lr = 5e-3
    labelled = False
    first_layer = "encoder.0"
    batch_size = 64

    def __init__(self) -> None:
        pictures, _, _ = digits(5600, noise=0.05)
        flat = pictures.flatten(1)
        self.train, self.held_out = Split(flat, flat).parts(600)
        self.model = VaeModel()
        self._kl = 0.0

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        logits, mean, log_var = outputs
        kl = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(1).mean()
        self._kl = float(kl.detach())
        pixels = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        loss: Tensor = (pixels.sum(1).mean() + kl) / PIXELS
        return loss

    def step_metrics(self) -> dict[str, float]:
        return {"kl": self._kl}


def spirals(count: int) -> Tensor:
    """Points of two spirals in the plane."""
    turn = 3 * torch.pi * torch.rand(count).sqrt()
    arm = torch.randint(2, (count,)) * torch.pi
    points = torch.stack([(turn + arm).cos(), (turn + arm).sin()], 1) * turn[:, None] / 5
    return points + 0.03 * torch.randn(count, 2)


class Denoiser(nn.Module):
    """The noise in a point, given how much there is of it."""

    waves: Tensor

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.enter = nn.Linear(2 + 8, width)
        self.body = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.head = nn.Linear(width, 2)
        self.register_buffer("waves", 2.0 ** torch.arange(4) * torch.pi / 2)

    def forward(self, points: Tensor, t: Tensor) -> Tensor:
        angles = t * self.waves
        x = torch.cat([points, angles.sin(), angles.cos()], 1)
        out: Tensor = self.head(self.body(self.enter(x)))
        return out


class Diffusion(Task):
    """The noise of points on spirals, at any level of noise."""

    name = "diffusion"
    lr = 3e-3
    steps = 600
    batch_size = 128
    cosine = True
    labelled = False

    def __init__(self) -> None:
        points = spirals(9000)
        self.train, self.held_out = Split(points, torch.zeros(9000)).parts(1000)
        self.model = Denoiser()

    def outputs(self, inputs: Tensor) -> Any:
        generator = None if self.model.training else torch.Generator().manual_seed(0)
        t = torch.rand(len(inputs), 1, generator=generator)
        noise = torch.randn(inputs.shape, generator=generator)
        angle = t * torch.pi / 2
        return self.model(angle.cos() * inputs + angle.sin() * noise, t), noise

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(*outputs)


class Gan(Task):
    """Points of the spirals, made from noise; the loss is the generator's."""

    name = "gan"
    optimizer = "adam"
    lr = 2e-3
    batch_size = 64
    labelled = False
    float_inputs = False  # the generator sees noise only
    typed = False

    def __init__(self) -> None:
        points = spirals(6000)
        self.train, self.held_out = Split(points, torch.zeros(6000)).parts(1000)
        self.model = nn.Sequential(
            *(nn.Linear(8, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2)),
            nn.Linear(64, 2),
        )
        self.critic = nn.Sequential(
            *(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2)),
            nn.Linear(64, 1),
        )
        self._optimizer: torch.optim.Optimizer | None = None
        self._critic_loss = 0.0

    def before_step(self, inputs: Tensor, lr: float) -> None:
        """One step of the critic, at the generator's learning rate."""
        if self._optimizer is None:
            self._optimizer = torch.optim.Adam(self.critic.parameters(), lr, (0.5, 0.99))
        with torch.no_grad():
            made = self.model(torch.randn(len(inputs), 8))
        self._optimizer.zero_grad()
        loss = functional.softplus(-self.critic(inputs)).mean()
        loss = loss + functional.softplus(self.critic(made)).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._critic_loss = float(loss.detach())

    def step_metrics(self) -> dict[str, float]:
        return {"critic_loss": self._critic_loss}

    def outputs(self, inputs: Tensor) -> Any:
        return self.model(torch.randn(len(inputs), 8))

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.softplus(-self.critic(outputs)).mean()

    def evaluate(self, inputs: Tensor, targets: Tensor) -> dict[str, float]:
        return {"distance": distance(self.outputs(inputs), inputs)}


def distance(made: Tensor, real: Tensor) -> float:
    """The sliced Wasserstein distance of two sets of points."""
    angles = torch.linspace(0, torch.pi, 16)
    lines = torch.stack([angles.cos(), angles.sin()])
    apart = (made @ lines).sort(0).values - (real @ lines).sort(0).values
    return float(apart.abs().mean())


TASKS = (Autoencoder, Vae, Diffusion, Gan)
