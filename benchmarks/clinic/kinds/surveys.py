"""Surveys: what covers the land of a satellite's patches, and waves by a buoy's sensors."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.pictures import layer
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

# Reflectance in per cent: blue, green, red, red edge, near and short-wave infrared.
COVERS = {
    "water": (6, 5, 4, 3, 2, 1),
    "wetland": (6, 8, 8, 14, 20, 9),
    "conifers": (4, 6, 4, 13, 23, 9),
    "broadleaf": (4, 8, 5, 19, 34, 14),
    "meadow": (6, 10, 8, 20, 33, 20),
    "crops": (9, 12, 13, 19, 26, 25),
    "bare": (10, 14, 18, 21, 25, 30),
    "town": (13, 14, 15, 18, 22, 22),
}
BANDS, PATCH, MISNAMED, DROPOUT = 6, 10, 0.04, 0.2


def patches(count: int) -> Split:
    """Patches of a satellite's six bands, and what covers the most of each.

    Crops have rows, towns have blocks, woods are rough; water and meadows are smooth. Sun, haze and
    season differ, another cover reaches into a corner, and few patches are named wrongly.
    """
    spectra = torch.tensor([list(map(float, one)) for one in COVERS.values()])
    cover, other = torch.randint(len(COVERS), (2, count))
    names = list(COVERS)
    place = torch.arange(float(PATCH)) - (PATCH - 1) / 2
    down, right = place.view(1, -1, 1), place.view(1, 1, -1)
    angle = 2 * math.pi * torch.rand(2, count, 1, 1)
    rows = (1.0 + 0.6 * torch.rand(count, 1, 1)) * (right * angle[0].cos() + down * angle[0].sin())
    rough = torch.randn(count, PATCH, PATCH)
    blocks = functional.interpolate(torch.randn(count, 1, 4, 4), size=PATCH)[:, 0]
    texture = 0.04 * rough
    for name, drawn in (
        *(("crops", rows.sin()), ("town", blocks), ("wetland", 0.8 * blocks + 0.4 * rough)),
        *(("conifers", rough), ("broadleaf", 0.8 * rough), ("bare", 0.5 * rows.cos())),
    ):
        here = (cover == names.index(name)).float().view(-1, 1, 1)
        texture = texture + 0.16 * here * drawn
    edge = 2 + 4 * torch.rand(count, 1, 1)
    beyond = torch.sigmoid(2 * (right * angle[1].cos() + down * angle[1].sin() - edge)).unsqueeze(1)
    season = 1 + 0.16 * torch.randn(2, count, BANDS)
    own, others = (spectra[one] * part for one, part in zip((cover, other), season, strict=True))
    ground = own.view(count, BANDS, 1, 1) * (1 + texture.unsqueeze(1))
    ground = ground * (1 - beyond) + others.view(count, BANDS, 1, 1) * beyond
    sun = 0.75 + 0.5 * torch.rand(count, 1, 1, 1)
    haze = 5 * torch.rand(count, 1, 1, 1) * torch.linspace(1, 0.2, BANDS).view(-1, 1, 1)
    seen = sun * ground + haze
    seen = seen + (0.6 + 0.06 * ground) * torch.randn(count, BANDS, PATCH, PATCH)
    middle, spread = seen.mean((0, 2, 3), keepdim=True), seen.std((0, 2, 3), keepdim=True)
    wrong = torch.rand(count) < MISNAMED
    return Split((seen - middle) / spread, torch.where(wrong, other, cover))


class LandCover(Classification):
    """What covers a patch, by cross entropy."""

    num_classes = len(COVERS)

    def __init__(self, width: int = 12) -> None:
        self.train, self.held_out = parted(patches(13_000), 1000)
        self.model = nn.Sequential(
            *(layer(BANDS, width, 2), layer(width, 2 * width, 2), nn.Flatten()),
            *(nn.Dropout(DROPOUT), nn.Linear(18 * width, 32), nn.ReLU(), nn.Dropout(DROPOUT)),
            nn.Linear(32, len(COVERS)),
        )

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        said, true = (functional.one_hot(o, len(COVERS)) for o in (outputs.argmax(1), targets))
        shared = (said * true).sum(0)
        iou = shared / (said.sum(0) + true.sum(0) - shared).clamp(min=1)
        return {**super().measures(outputs, targets), "mean_iou": float(iou.mean())}


RECORD, RATE_HZ, MOTIONS = 128, 2.0, 3
# Height in metres and period in seconds.
USUAL, SPREAD = torch.tensor([2.6, 7.0]), torch.tensor([1.4, 1.6])


def seas(count: int) -> Split:
    """A minute of a buoy's acceleration and two tilts, and the waves' height and mean period.

    A wind sea and a swell of another direction are mixed. The swell is slow and hardly accelerates
    the buoy. A reference nearby tells height and period, with errors of its own.
    """
    length = 2 * RECORD
    hertz = torch.fft.rfftfreq(length, 1 / RATE_HZ)[1:]
    root = torch.rand(count, 1)
    height = torch.cat([0.5 + 4.5 * root, 0.3 + 2.7 * torch.rand(count, 1)], 1).unsqueeze(2)
    period = torch.cat([3.5 + 6 * root.sqrt(), 9 + 6 * torch.rand(count, 1)], 1).unsqueeze(2)
    period = period * (1 + 0.08 * torch.randn(count, 2, 1))
    peak = 1 / period
    shape = (hertz / peak).pow(-5) * (-1.25 * (hertz / peak).pow(-4)).exp()
    energy = (height / 4).square() * shape / shape.sum(2, keepdim=True)
    whole = energy.sum(1)
    truth = torch.stack([4 * whole.sum(1).sqrt(), whole.sum(1) / (whole * hertz).sum(1)], 1)
    waves = torch.randn(count, 2, len(hertz), dtype=torch.cfloat) * energy.sqrt()
    angle = 2 * math.pi * torch.rand(count, 2, 1)
    fast = (2 * math.pi * hertz).square()
    moved = torch.stack(
        [
            (waves * fast).sum(1),
            *((waves * 1j * fast * side).sum(1) for side in (angle.cos(), angle.sin())),
        ],
        1,
    )
    full = functional.pad(moved, (1, 0)) * length / math.sqrt(2)
    record = torch.fft.irfft(full, length)[:, :, :RECORD]
    record[:, 1:] += 0.2 * torch.randn(count, 2, 1)  # the mooring pulls
    record = record + 0.08 * torch.randn_like(record)
    error = torch.randn(count, 2) * torch.tensor([0.06, 0.04])
    return Split(record / record.std((0, 2), keepdim=True), truth * (1 + error))


def standard(targets: Tensor) -> Tensor:
    """Height and period as the model gives them."""
    return (targets - USUAL.to(targets.device)) / SPREAD.to(targets.device)


class Waves(Task):
    """Height and period of waves, by the smooth absolute error in usual spreads."""

    def __init__(self, width: int = 12) -> None:
        self.train, self.held_out = parted(seas(13_000), 1000)
        self.model = nn.Sequential(
            *(nn.Conv1d(MOTIONS, width, 9, 4, 4), nn.ReLU()),
            *(nn.Conv1d(width, 2 * width, 5, 2, 2), nn.ReLU(), nn.AvgPool1d(4), nn.Flatten()),
            *(nn.Linear(8 * width, 48), nn.ReLU(), nn.Linear(48, 2)),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.smooth_l1_loss(outputs, standard(targets), beta=0.5)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        away = (outputs - standard(targets)).abs() * SPREAD.to(outputs.device)
        metres, seconds = away.mean(0).tolist()
        return {"mae_m": metres, "mae_s": seconds}

    def leak(self, split: Split) -> None:
        records = split.inputs.clone()
        records[:, 1:] = standard(split.targets).unsqueeze(2)
        split.inputs = records


KINDS = (
    Kind(
        "land_cover",
        "blind10",
        LandCover,
        (
            OptimizerChoice("nadam", 4e-3, decay="cosine"),
            OptimizerChoice("nesterov", 0.02, {"weight_decay": 5e-4}, decay="linear"),
        ),
        steps=900,
        batch_size=24,
        warmup=60,
        num_evals=15,
        log_every=2,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"bands": BANDS, "patch": PATCH, "dropout": DROPOUT},
        faults=(
            "rate_x30 stale_batchnorm dropout_in_eval label_leak overfitting labels_shuffled "
            "double_softmax eval_on_train",
            "no_warmup stale_batchnorm one_batch unshuffled frozen missing_parameters "
            "schedule_unit clip_tight",
        ),
    ),
    Kind(
        "waves",
        "blind10",
        Waves,
        (
            OptimizerChoice("adagrad", 0.05, decay="none"),
            OptimizerChoice("momentum", 0.09, decay="steps"),
        ),
        steps=1000,
        batch_size=24,
        clip=5.0,
        num_evals=20,
        typed=False,
        pace_ms=0.0,
        seeds=3,
        fault_seeds=1,
        config={"loss": "smooth_l1", "rate_hz": RATE_HZ, "record": RECORD},
        faults=(
            "rate_x10 exploding_init nan_input label_leak wrong_sign missing_step rate_zero "
            "slow_loader",
            "rate_too_small tiny_init dead_relu wrong_reduction accumulation fp16_overflow "
            "missing_zero_grad rate_x30",
        ),
    ),
)
