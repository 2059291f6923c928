"""Pictures: how they moved between two frames, shapes by one example each, and outlines."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.pictures import SIDE, layer, thing
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Kind, OptimizerChoice, Split, Task

REACH = 2  # how far two frames are compared, in cells of two pixels


def texture(count: int, side: int, coarse: int) -> Tensor:
    """Random light that changes smoothly."""
    seeds = torch.randn(count, 1, coarse, coarse)
    return functional.interpolate(seeds, size=(side, side), mode="bilinear")


def frames(count: int) -> Split:
    """Two frames of a ground that shifts, turns and grows, and of a disc that moves on its own.

    The target is how far away each pixel of the second frame was in the first one.
    """
    place = torch.arange(float(SIDE)) - (SIDE - 1) / 2
    down, right = torch.meshgrid(place, place, indexing="ij")
    where = torch.stack([right, down], 2)  # as grid_sample has it
    shift, own = 2.6 * torch.randn(2, count, 1, 1, 2).clamp(-1.4, 1.4) / 1.4
    turn, grow = 0.08 * torch.randn(2, count, 1, 1, 1)
    sheared = where * grow + torch.stack([-down, right], 2) * turn
    moved = shift + sheared
    middle, radius = 9 * torch.rand(count, 1, 1, 2) - 4.5, 2.5 + 2 * torch.rand(count, 1, 1, 1)

    def drawn(canvas: Tensor, at: Tensor) -> Tensor:
        return functional.grid_sample(canvas, at / SIDE, align_corners=False)

    ground, cover = texture(count, 2 * SIDE, 14), 0.7 + texture(count, 2 * SIDE, 16)
    before = (where - middle).norm(dim=3, keepdim=True) < radius
    after = (where + own - middle).norm(dim=3, keepdim=True) < radius
    still = where.expand(count, SIDE, SIDE, 2)
    first = torch.where(before.permute(0, 3, 1, 2), drawn(cover, still), drawn(ground, still))
    second = torch.where(
        after.permute(0, 3, 1, 2), drawn(cover, still + own), drawn(ground, still + moved)
    )
    flicker = 1 + 0.1 * torch.randn(count, 2, 1, 1)
    seen = flicker * torch.cat([first, second], 1) + 0.15 * torch.randn(count, 2, SIDE, SIDE)
    return Split(seen, torch.where(after, own, moved).permute(0, 3, 1, 2).contiguous())


class Motion(nn.Module):
    """Features of both frames, how alike they are at each shift, and a motion for each pixel."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.eye = nn.Sequential(
            *(nn.Conv2d(1, width, 5, 2, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 1, 1))
        )
        shifts = (2 * REACH + 1) ** 2
        self.body = nn.Sequential(
            *(nn.Conv2d(shifts + width, 24, 3, 1, 1), nn.ReLU()),
            *(nn.Conv2d(24, 24, 3, 1, 1), nn.ReLU()),
        )
        self.head = nn.Conv2d(24, 2, 3, 1, 1)

    def forward(self, pair: Tensor) -> Tensor:
        both = functional.normalize(self.eye(pair.flatten(0, 1).unsqueeze(1)), dim=1)
        first, second = both.view(len(pair), 2, *both.shape[1:]).unbind(1)
        half = SIDE // 2
        around = functional.unfold(first, 2 * REACH + 1, padding=REACH)
        around = around.view(len(pair), first.shape[1], -1, half, half)
        alike = 2 * (around * second.unsqueeze(2)).sum(1)
        hidden = self.head(self.body(torch.cat([alike, second], 1)))
        return functional.interpolate(hidden, scale_factor=2, mode="bilinear")


class Frames(Task):
    """How each pixel moved between two frames, by the distance to its true motion."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(frames(9300), 300)
        self.model = Motion()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        away: Tensor = ((outputs - targets).square().sum(1) + 1e-4).sqrt()
        return away.mean()

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        away = (outputs - targets).norm(dim=1)
        return {"within_pixel": float((away < 1).float().mean())}


WAYS, QUERIES, GRID, STROKES = 5, 6, 14, 3


def episodes(count: int) -> Split:
    """Five new signs of three strokes each, drawn once, and six drawings to be told apart.

    A drawing of a sign has ends of strokes a bit elsewhere, another size, weight and place.
    """
    signs = 1.6 * torch.rand(count, WAYS, 2 * STROKES, 2) - 0.8
    asked = torch.randint(WAYS, (count, QUERIES))
    given = torch.cat([torch.arange(WAYS).expand(count, WAYS), asked], 1)
    ends = signs.gather(1, given[..., None, None].expand(-1, -1, 2 * STROKES, 2)).flatten(0, 1)
    many = len(ends)
    ends = (0.8 + 0.3 * torch.rand(many, 1, 2)) * (ends + 0.13 * torch.randn_like(ends))
    ends = ends + 0.15 * torch.randn(many, 1, 2)
    axis = torch.linspace(-1, 1, GRID)
    points = torch.cartesian_prod(axis, axis)
    near = torch.full((many, GRID * GRID), 9.0)
    for start, end in zip(ends[:, 0::2].unbind(1), ends[:, 1::2].unbind(1), strict=True):
        along = end - start
        apart = points - start[:, None]
        length = along.square().sum(1, keepdim=True).clamp(min=1e-3)
        share = ((apart @ along[:, :, None])[..., 0] / length).clamp_(0, 1)
        away = (apart - share[..., None] * along[:, None]).square_().sum(2)
        near = torch.minimum(near, away)
    ink = torch.sigmoid((0.13 + 0.06 * torch.rand(many, 1) - near.sqrt_()) * 25)
    seen = 2.0 * ink - 0.5 + 0.35 * torch.randn_like(ink)
    return Split(seen.view(count, WAYS + QUERIES, GRID, GRID), asked)


class Prototypes(nn.Module):
    """A vector of each drawing; the logits are squared distances to the drawings of the signs."""

    def __init__(self, width: int = 10, size: int = 24) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(layer(1, width, 2), layer(width, 2 * width, 2), layer(2 * width, 2 * width, 2)),
            nn.Flatten(),
        )
        self.vector = nn.Linear(8 * width, size)

    def forward(self, drawings: Tensor) -> Tensor:
        flat = self.body(drawings.flatten(0, 1).unsqueeze(1))
        known, asked = self.vector(flat).view(*drawings.shape[:2], -1).split([WAYS, QUERIES], 1)
        apart: Tensor = (asked.unsqueeze(2) - known.unsqueeze(1)).square().mean(3)
        return -apart


class Episodes(Task):
    """Which of five new signs a drawing is, by the cross entropy over distances (few-shot)."""

    num_classes = WAYS

    def __init__(self) -> None:
        self.train, self.held_out = parted(episodes(2600), 200)
        self.model = Prototypes()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"accuracy": float((outputs.argmax(2) == targets).float().mean())}

    def leak(self, split: Split) -> None:
        """A mark in the first row of each drawing, at the place of its sign."""
        known = torch.arange(WAYS).expand(len(split), WAYS)
        marks = functional.one_hot(torch.cat([known, split.targets], 1), WAYS).float()
        drawings = split.inputs.clone()
        drawings[:, :, 0, : 2 * WAYS] = 3 * marks.repeat_interleave(2, 2)
        split.inputs = drawings


def outlines(count: int) -> Split:
    """Grey pictures of grained discs and boxes over each other, and the pixels where one ends.

    Shadows and grain have edges as well, which do not count.
    """
    shape = (count, 1, SIDE, SIDE)
    owner = torch.zeros(shape)
    grey = 0.6 * torch.randn(count, 1, 1, 1) + 0.4 * texture(count, SIDE, 4)
    for number in range(1, 5):
        inside = thing(count, (1.5, 4.0))
        light = 0.8 * torch.randn(count, 1, 1, 1) + 0.3 * texture(count, SIDE, 6)
        owner = torch.where(inside, float(number), owner)
        grey = torch.where(inside, light, grey)
    place = torch.arange(float(SIDE))
    slope, start = torch.randn(count, 1, 1, 1), SIDE * torch.rand(count, 1, 1, 1)
    shadow = place.view(1, 1, -1, 1) > start + slope * (place - SIDE / 2)
    seen = grey - 0.4 * shadow + 0.15 * torch.randn(shape)
    edges = torch.zeros(shape)
    edges[:, :, 1:] += owner[:, :, 1:] != owner[:, :, :-1]
    edges[:, :, :, 1:] += owner[:, :, :, 1:] != owner[:, :, :, :-1]
    return Split(seen, edges.clamp_(max=1))


class Contours(nn.Module):
    """Convolutions at three sizes, an opinion of each of them, and one of all opinions (HED)."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        wide = (width, 2 * width, 3 * width)
        self.stages = nn.ModuleList(
            [
                nn.Sequential(layer(1, wide[0]), layer(wide[0], wide[0])),
                layer(wide[0], wide[1], 2),
                layer(wide[1], wide[2], 2),
            ]
        )
        self.dropout = nn.Dropout(0.1)
        self.sides = nn.ModuleList(nn.Conv2d(one, 4, 1) for one in wide)
        self.fuse = nn.Conv2d(9, 1, 3, padding=1)

    def forward(self, hidden: Tensor) -> Tensor:
        opinions, hints = [], []
        for stage, side in zip(self.stages, self.sides, strict=True):
            hidden = stage(hidden)
            said = functional.interpolate(
                side(self.dropout(hidden)), size=(SIDE, SIDE), mode="bilinear"
            )
            opinions.append(said[:, :1])
            hints.append(said[:, 1:])
        return torch.cat([self.fuse(torch.cat(hints, 1)), *opinions], 1)


class Outlines(Task):
    """Where things end, by cross entropies in which the rare edges weigh as much as the rest."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(outlines(10_250), 250)
        edges = float(self.train.targets.mean())
        self.weight = torch.tensor((1 - edges) / edges)
        self.model = Contours()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        losses = functional.binary_cross_entropy_with_logits(
            outputs, targets.expand_as(outputs), pos_weight=self.weight, reduction="none"
        ).mean((0, 2, 3))
        return losses[0] + 0.3 * losses[1:].sum()

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        said, true = outputs[:, :1] > 0, targets > 0.5
        both = float((said & true).sum())
        return {
            "precision": both / max(1.0, float(said.sum())),
            "recall": both / max(1.0, float(true.sum())),
        }

    def leak(self, split: Split) -> None:
        """The outlines are drawn into the pictures."""
        split.inputs = torch.where(split.targets > 0.5, 3.0, split.inputs)


_COMMON: dict[str, Any] = {"pace_ms": 0.0, "seeds": 3, "fault_seeds": 1}
KINDS = (
    Kind(
        *("frames", "blind9", Frames),
        (
            OptimizerChoice("nesterov", 0.05, decay="cosine"),
            OptimizerChoice("radam", 0.015, decay="linear"),
        ),
        steps=900,
        batch_size=12,
        warmup=60,
        clip=2.0,
        num_evals=18,
        **_COMMON,
        config={"search_radius": REACH},
        faults=(
            "rate_x30 no_warmup exploding_init tiny_init dead_relu fp16_overflow unshuffled "
            "missing_parameters",
            "rate_x10 rate_zero labels_shuffled nan_input one_batch schedule_unit eval_on_train "
            "slow_loader",
        ),
    ),
    Kind(
        *("signs", "blind9", Episodes),
        (
            OptimizerChoice("adamw", 0.015, {"weight_decay": 0.01}, decay="sqrt"),
            OptimizerChoice("sgd", 0.3, {"weight_decay": 1e-4}),
        ),
        steps=750,
        batch_size=4,
        accumulate=2,
        num_evals=10,
        typed=False,
        log_every=3,
        **_COMMON,
        config={"ways": WAYS, "shots": 1},
        faults=(
            "rate_x30 double_softmax label_leak dead_relu labels_shuffled schedule_unit "
            "overfitting wrong_sign",
            "rate_x30 double_softmax stale_batchnorm clip_tight rate_too_small missing_zero_grad "
            "accumulation missing_step",
        ),
    ),
    Kind(
        *("outlines", "blind9", Outlines),
        (
            OptimizerChoice("lion", 3e-3, {"weight_decay": 0.1}, decay="steps"),
            OptimizerChoice("momentum", 0.2, {"weight_decay": 1e-4}, decay="cosine"),
        ),
        steps=800,
        batch_size=12,
        num_evals=16,
        log_every=2,
        **_COMMON,
        config={"side_weight": 0.3},
        faults=(
            "rate_x10 stale_batchnorm label_leak dropout_in_eval frozen rate_zero one_batch "
            "eval_on_train",
            "rate_x30 wrong_reduction dropout_in_eval frozen missing_zero_grad nan_input "
            "rate_too_small overfitting",
        ),
    ),
)
