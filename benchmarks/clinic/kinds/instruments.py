"""Science and engineering: an operator of a flow, forces between atoms, heartbeats."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

GRID, FINER, MODES = 32, 2, 8


def flows(count: int) -> Split:
    """Smooth speeds on a ring, and those some time later: fast parts overtake slow ones."""
    places = torch.arange(GRID * FINER) * 6.283185 / (GRID * FINER)
    wave = torch.arange(1.0, 5.0).view(1, -1, 1)
    sizes, phases = torch.randn(count, 4, 1) / wave, 6.283 * torch.rand(count, 4, 1)
    speed = 0.6 * (sizes * (wave * places + phases).sin()).sum(1) + 0.3 * torch.randn(count, 1)
    first, tick, wide = speed[:, ::FINER], 0.01, 6.283185 / (GRID * FINER)
    for _ in range(80):
        before, after = speed.roll(1, 1), speed.roll(-1, 1)
        push = (after.square() - before.square()) / (4 * wide)
        speed = speed + tick * (0.08 * (after - 2 * speed + before) / wide**2 - push)
    return Split(first.contiguous(), speed[:, ::FINER].contiguous())


class Spectral(nn.Module):
    """Mixes channels, for each of the slow waves by weights of its own, beside a plain layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width, MODES, 2) / (2 * width) ** 0.5)
        self.plain = nn.Conv1d(width, width, 1)

    def forward(self, maps: Tensor) -> Tensor:
        waves = torch.fft.rfft(maps)[..., :MODES]
        mixed = torch.einsum("nik,iok->nok", waves, torch.view_as_complex(self.weight))
        out: Tensor = torch.fft.irfft(mixed, n=GRID) + self.plain(maps)
        return out


class Operator(nn.Module):
    """From a function on a grid to another one, by layers over its waves; adds to what it was."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.lift = nn.Conv1d(1, width, 1)
        self.layers = nn.Sequential(
            *(Spectral(width), nn.GELU(), Spectral(width), nn.GELU(), Spectral(width))
        )
        self.head = nn.Sequential(nn.Conv1d(width, 32, 1), nn.GELU(), nn.Conv1d(32, 1, 1))

    def forward(self, speeds: Tensor) -> Tensor:
        out: Tensor = self.head(self.layers(self.lift(speeds.unsqueeze(1))))[:, 0]
        return speeds + out


class Flows(Task):
    """Burgers' equation for any start (a Fourier neural operator), by the relative error."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(flows(5300), 300)
        self.model = Operator()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        size = targets.norm(dim=1).clamp(min=0.1)
        loss: Tensor = ((outputs - targets).norm(dim=1) / size).mean()
        return loss

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"rmse": float((outputs - targets).square().mean().sqrt())}


ATOMS, SORTS, SHELLS = 5, 2, 10
FORCE_SHARE = 0.9


def pairs(places: Tensor) -> Tensor:
    """The distance of each atom to each other one."""
    apart = places.unsqueeze(2) - places.unsqueeze(1)
    own = torch.eye(ATOMS, device=places.device)
    return (apart.square().sum(3) + own).sqrt()


def clusters(count: int) -> Split:
    """Five atoms of two sorts near each other; their energy and the force on each."""
    sort = torch.randint(SORTS, (count, ATOMS))
    places = 1.1 * torch.randn(count, ATOMS, 3)
    for _ in range(25):  # none too near another one
        away = pairs(places)
        push = (1.0 - away).clamp(min=0) * (1 - torch.eye(ATOMS))
        apart = (places.unsqueeze(2) - places.unsqueeze(1)) / away.unsqueeze(3)
        places = places + 0.3 * (push.unsqueeze(3) * apart).sum(2)
    places = places.requires_grad_()
    both = sort.unsqueeze(1) + sort.unsqueeze(2)
    deep, long = torch.tensor([1.0, 0.6, 1.4])[both], torch.tensor([1.2, 1.5, 1.4])[both]
    fall = (-1.5 * (pairs(places) - long)).exp()
    bond = deep * (fall.square() - 2 * fall) * (1 - torch.eye(ATOMS))
    energy = bond.sum((1, 2)) / 2
    (slope,) = torch.autograd.grad(energy.sum(), places)
    rows = torch.cat([places.detach(), sort.unsqueeze(2).float()], 2)
    answer = torch.cat([energy.detach().unsqueeze(1), -slope.flatten(1)], 1)
    return Split(rows, answer / answer[:, 1:].std())


class Potential(nn.Module):
    """Atoms hear of each other by distance, twice; energies are added, forces are their slope."""

    shells: Tensor

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.sorts = nn.Linear(SORTS, width, bias=False)
        self.filters = nn.ModuleList(nn.Linear(SHELLS, width) for _ in range(2))
        self.updates = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
            for _ in range(2)
        )
        self.head = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))
        self.register_buffer("shells", torch.linspace(0.7, 4.0, SHELLS))

    def forward(self, rows: Tensor) -> Tensor:
        learns = torch.is_grad_enabled()
        with torch.enable_grad():
            places = rows[..., :3].detach().requires_grad_()
            away = pairs(places).unsqueeze(3)
            near = (-4 * (away - self.shells).square()).exp()
            near = near * (1 - torch.eye(ATOMS, device=rows.device)).unsqueeze(2)
            kind = torch.stack([rows[..., 3], 1 - rows[..., 3]], 2)
            hidden = self.sorts(kind)
            for weigh, update in zip(self.filters, self.updates, strict=True):
                heard = (weigh(near) * hidden.unsqueeze(1)).mean(2)
                hidden = hidden + update(heard)
            energy = self.head(hidden).sum(1)
            (slope,) = torch.autograd.grad(energy.sum(), places, create_graph=learns)
        return torch.cat([energy, -slope.flatten(1)], 1)


class Forces(Task):
    """Energies and forces of clusters (an interatomic potential), by Huber's loss of both."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(clusters(6400), 400)
        self.model = Potential()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        energy = functional.huber_loss(outputs[:, 0], targets[:, 0])
        force = functional.huber_loss(outputs[:, 1:], targets[:, 1:])
        return (1 - FORCE_SHARE) * energy + FORCE_SHARE * force

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        away = (outputs - targets).abs()
        return {"energy_mae": float(away[:, 0].mean()), "force_mae": float(away[:, 1:].mean())}


BEATS, SAMPLES = 5, 64


def beats(count: int) -> Split:
    """One lead of a heart: normal, early without its first wave, early, notched, or raised."""
    time = torch.linspace(0, 1, SAMPLES)
    share = torch.tensor([0.4, 0.15, 0.15, 0.15, 0.15])
    label = torch.multinomial(share, count, replacement=True)

    def wave(middle: Tensor, width: Tensor | float, size: Tensor | float) -> Tensor:
        return size * (-(((time - middle) / width) ** 2)).exp()

    def near(middle: float, spread: float) -> Tensor:
        return middle + spread * torch.randn(count, 1)

    ventricular, early, notched, raised = (label[:, None] == one for one in range(1, BEATS))
    begin = near(0.42, 0.03) - 0.1 * (ventricular | early)
    wide = 0.022 + 0.035 * ventricular + 0.004 * torch.randn(count, 1)
    lead = near(1.0, 0.2)
    signal = lead * wave(begin, wide.clamp(min=0.012), near(1.2, 0.2))
    signal += lead * wave(begin - 0.16 + 0.05 * early, 0.04, near(0.2, 0.04)) * ~ventricular
    signal -= lead * wave(begin + 0.05, 0.02, near(0.25, 0.05))
    signal += lead * wave(begin + 0.09, 0.018, near(0.45, 0.12)) * notched
    signal += lead * wave(begin + 0.28, near(0.07, 0.01).clamp(min=0.04), near(0.35, 0.08))
    signal += lead * wave(begin + 0.16, 0.09, near(0.25, 0.06)) * raised
    drift = 0.2 * torch.randn(count, 1) * (6.283 * (0.5 * time + torch.rand(count, 1))).sin()
    noise = 0.12 * torch.randn(count, SAMPLES)
    return Split((signal + drift + noise).unsqueeze(1), label)


class Shortcut(nn.Module):
    """Two convolutions over time beside a shortcut; the second half of the way is coarser."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.ways = nn.Sequential(
            nn.Conv1d(inputs, outputs, 5, stride=2, padding=2, bias=False),
            *(nn.BatchNorm1d(outputs), nn.ReLU()),
            *(nn.Conv1d(outputs, outputs, 5, padding=2, bias=False), nn.BatchNorm1d(outputs)),
        )
        self.around = nn.Conv1d(inputs, outputs, 1, stride=2)

    def forward(self, signal: Tensor) -> Tensor:
        return functional.relu(self.ways(signal) + self.around(signal))


class Heartbeats(Classification):
    """The sort of a heartbeat by a residual network over time."""

    num_classes = BEATS

    def __init__(self, width: int = 8) -> None:
        self.train, self.held_out = parted(beats(10_800), 800)
        self.model = nn.Sequential(
            nn.Conv1d(1, width, 7, stride=2, padding=3, bias=False),
            *(nn.BatchNorm1d(width), nn.ReLU()),
            *(Shortcut(width, width), Shortcut(width, 2 * width)),
            *(nn.AdaptiveAvgPool1d(3), nn.Flatten(), nn.Dropout(0.1)),
            nn.Linear(6 * width, BEATS),
        )


KINDS = (
    Kind(
        "operator",
        "blind7",
        Flows,
        (
            OptimizerChoice("adamw", 0.015, {"weight_decay": 1e-4}, decay="cosine"),
            OptimizerChoice("adagrad", 0.05, decay="linear"),
        ),
        steps=700,
        batch_size=16,
        warmup=70,
        num_evals=14,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 labels_shuffled overfitting frozen rate_zero wrong_sign nan_input "
            "slow_loader",
            "rate_x30 exploding_init missing_zero_grad missing_parameters missing_step one_batch "
            "rate_too_small schedule_unit",
        ),
    ),
    Kind(
        "forces",
        "blind7",
        Forces,
        (
            OptimizerChoice("adam", 0.02, {"amsgrad": True}, decay="linear"),
            OptimizerChoice("nesterov", 0.2, decay="steps"),
        ),
        steps=800,
        batch_size=16,
        warmup=80,
        clip=1.0,
        num_evals=10,
        log_every=4,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        faults=(
            "rate_x30 labels_shuffled tiny_init rate_zero eval_on_train missing_zero_grad "
            "overfitting one_batch",
            "rate_x30 clip_tight exploding_init wrong_sign missing_parameters rate_too_small "
            "nan_input frozen",
        ),
    ),
    Kind(
        "heartbeats",
        "blind7",
        Heartbeats,
        (
            OptimizerChoice("momentum", 0.05, {"weight_decay": 5e-4}, decay="steps"),
            OptimizerChoice("adam", 9e-3, decay="cosine"),
        ),
        steps=700,
        batch_size=24,
        num_evals=20,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"num_classes": BEATS},
        faults=(
            "rate_x30 stale_batchnorm wrong_reduction accumulation double_softmax unshuffled "
            "fp16_overflow clip_tight labels_shuffled",
            "rate_x30 label_leak dropout_in_eval eval_on_train overfitting frozen rate_zero "
            "labels_shuffled",
        ),
    ),
)
