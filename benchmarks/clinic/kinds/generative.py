"""Models that make samples: a variational autoencoder, a diffusion model, a pair of adversaries."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task


class Autoencoder(nn.Module):
    """Mean and width of eight hidden causes, and back."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 96), nn.ReLU(), nn.Linear(96, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_var = self.encoder(x).chunk(2, 1)
        drawn = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        return self.decoder(drawn), mean, log_var


class Vae(Task):
    """The bound of the likelihood of 64 pixels."""

    def __init__(self) -> None:
        causes = torch.randn(4000, 6)
        pixels = torch.sigmoid(2 * causes @ torch.randn(6, 64))
        pixels = (pixels + 0.05 * torch.randn(4000, 64)).clamp(0, 1)
        self.train, self.held_out = parted(Split(pixels, pixels), 800)
        self.model = Autoencoder()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        made, mean, log_var = outputs
        rebuilt = functional.mse_loss(made, targets, reduction="sum") * 10 / len(targets)
        distance = 0.5 * (mean**2 + log_var.exp() - 1 - log_var).sum() / len(targets)
        loss: Tensor = rebuilt + distance
        return loss


class Denoiser(nn.Module):
    """The noise of a point, from the noisy point and the time."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2 + 16, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 2)
        )
        self.register_buffer("waves", 2.0 ** torch.arange(8) * torch.pi)

    def forward(self, points: Tensor, time: Tensor) -> Tensor:
        waves = time * self.waves  # type: ignore[operator]
        noise: Tensor = self.net(torch.cat([points, waves.sin(), waves.cos()], 1))
        return noise


class Diffusion(Task):
    """A diffusion model of points on a spiral; the loss is noisy by nature."""

    def __init__(self) -> None:
        turn = 0.5 + 3 * torch.rand(5000, 1)
        points = torch.cat([turn.cos() * turn, (2 * turn).sin() * turn], 1) / 2
        points = points + 0.02 * torch.randn(5000, 2)
        self.train, self.held_out = parted(Split(points, points), 1500)
        self.model = Denoiser()

    def outputs(self, inputs: Tensor) -> Any:
        time = torch.rand(len(inputs), 1, device=inputs.device)
        noise = torch.randn_like(inputs)
        keep = (0.5 * torch.pi * time).cos()
        noisy = keep * inputs + (1 - keep**2).sqrt() * noise
        return self.model(noisy, time), noise

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        guess, noise = outputs
        return functional.mse_loss(guess, noise)


class Gan(Task):
    """A generator of points on a ring, and its critic; the loss is the generator's."""

    def __init__(self) -> None:
        turn = 2 * torch.pi * torch.randint(8, (5000, 1)) / 8
        points = torch.cat([turn.cos(), turn.sin()], 1) + 0.05 * torch.randn(5000, 2)
        self.train, self.held_out = parted(Split(points, points), 1500)
        self.model = nn.Sequential(
            nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)
        )
        self.critic = nn.Sequential(
            nn.Linear(2, 64),
            nn.LeakyReLU(0.2),
            nn.Linear(64, 64),
            nn.LeakyReLU(0.2),
            nn.Linear(64, 1),
        )
        self._optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3, betas=(0.5, 0.99))
        self._critic_loss = 0.0

    def before_step(self, step: int, rate: float) -> None:
        real, _ = self.train.take(torch.randint(len(self.train), (64,)))
        real = real.to(self.device)
        made = self.model(torch.randn(64, 8, device=self.device)).detach()
        loss = functional.softplus(-self.critic(real)).mean()
        loss = loss + functional.softplus(self.critic(made)).mean()
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._critic_loss = float(loss.detach())

    def figures(self) -> dict[str, float]:
        return {"d_loss": self._critic_loss}

    def outputs(self, inputs: Tensor) -> Any:
        return self.model(torch.randn(len(inputs), 8, device=self.device))

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        # A critic that learns from this too would be its own enemy.
        for parameter in self.critic.parameters():
            parameter.requires_grad_(False)
        loss = functional.softplus(-self.critic(outputs)).mean()
        for parameter in self.critic.parameters():
            parameter.requires_grad_(True)
        return loss

    def evaluate(self, split: Split) -> dict[str, float]:
        with torch.no_grad():
            made = self.model(torch.randn(1000, 8, device=self.device))
            real = split.inputs[:1000].to(self.device)
            between = torch.cdist(made, real).mean()
            within = torch.cdist(made, made).mean() + torch.cdist(real, real).mean()
        return {"loss": float(2 * between - within)}


KINDS = (
    Kind(
        "vae",
        "tuning",
        Vae,
        (OptimizerChoice("adam", 2e-3), OptimizerChoice("rmsprop", 1e-3)),
        typed=False,
    ),
    Kind(
        "diffusion",
        "unseen",
        Diffusion,
        (OptimizerChoice("adamw", 2e-3), OptimizerChoice("rmsprop", 1e-3)),
        batch_size=128,
        steps=1200,
        warmup=40,
    ),
    Kind(
        "gan",
        "tuning",
        Gan,
        (OptimizerChoice("adam", 5e-4, {"betas": (0.5, 0.99)}), OptimizerChoice("rmsprop", 5e-4)),
        batch_size=64,
        steps=1200,
        typed=False,
    ),
)
