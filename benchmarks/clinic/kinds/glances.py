"""What a glance tells: which way up, what a hidden patch holds, where things stand, who speaks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.pictures import layer
from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.kinds.writing import Attention, Feed
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

VIEW, TURNS = 12, 4


def landscapes(count: int) -> Split:
    """Light from above and trees that stand on the ground; the target is how many there are."""
    height = torch.linspace(1, -1, VIEW).view(1, -1, 1)
    across = torch.arange(float(VIEW)).view(1, 1, -1)
    pictures = (0.2 * torch.randn(count, 1, 1)) * height + 0.3 * torch.randn(count, 1, 1)
    number = torch.randint(1, 5, (count,))
    for tree in range(4):
        place, top = VIEW * torch.rand(count, 1, 1), 1.4 * torch.rand(count, 1, 1) - 0.8
        crown = ((across - place).abs() <= 1.5) & ((height - top).abs() <= 0.35)
        stem = ((across - place).abs() <= 0.5) & (height < top)
        there = (number > tree).view(-1, 1, 1)
        pictures = torch.where(there & (crown | stem), pictures + 0.9, pictures)
    return Split((pictures + 0.45 * torch.randn_like(pictures)).unsqueeze(1), number)


class Turning(Task):
    """Which way up a picture is, without labels: each is seen in four turns (RotNet)."""

    def __init__(self, width: int = 8) -> None:
        self.train, self.held_out = parted(landscapes(4000), 400)
        self.model = nn.Sequential(
            *(layer(1, width, 2), layer(width, 2 * width), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Dropout(0.1), nn.Linear(18 * width, TURNS)),
        )

    def outputs(self, inputs: Tensor) -> Any:
        return self.model(torch.cat([inputs.rot90(turn, (2, 3)) for turn in range(TURNS)]))

    def _turns(self, outputs: Tensor) -> Tensor:
        turns = torch.arange(TURNS, device=outputs.device)
        return turns.repeat_interleave(len(outputs) // TURNS)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, self._turns(outputs))

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"accuracy": float((outputs.argmax(1) == self._turns(outputs)).float().mean())}


SIDE, PATCH, PATCHES, SEEN = 16, 4, 16, 6


def waves(count: int) -> Tensor:
    """Three waves of any direction, and an edge in half of the pictures; as rows of patches."""
    axis = torch.linspace(-1, 1, SIDE)
    down, right = axis.view(1, -1, 1), axis.view(1, 1, -1)
    pictures = torch.zeros(count, SIDE, SIDE)
    for _ in range(3):
        size, turn, phase = torch.randn(count, 1, 1), *(6.283 * torch.rand(2, count, 1, 1))
        speed = 1.5 + 2 * torch.rand(count, 1, 1)
        pictures += size * torch.sin(speed * (turn.cos() * down + turn.sin() * right) + phase)
    edge = (torch.rand(count, 1, 1) < 0.5) & (down > axis[torch.randint(SIDE, (count, 1, 1))])
    pictures = torch.where(edge, pictures + 1, pictures) + 0.1 * torch.randn_like(pictures)
    parts = pictures.view(count, PATCH, PATCH, PATCH, PATCH).transpose(2, 3)
    return parts.reshape(count, PATCHES, PATCH * PATCH)


class Masked(nn.Module):
    """An encoder of the patches that are seen; a smaller decoder puts the hidden ones back."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Linear(PATCH * PATCH, width)
        self.places = nn.Parameter(0.1 * torch.randn(PATCHES, width))
        self.encoder = nn.Sequential(Attention(width), Feed(width), nn.LayerNorm(width))
        self.hidden = nn.Parameter(0.02 * torch.randn(width))
        self.decoder = nn.Sequential(Attention(width), Feed(width), nn.LayerNorm(width))
        self.head = nn.Linear(width, PATCH * PATCH)

    def forward(self, patches: Tensor, order: Tensor) -> Tensor:
        wide = order.unsqueeze(2)
        shown = (self.embed(patches) + self.places).gather(
            1, wide[:, :SEEN].expand(-1, -1, len(self.hidden))
        )
        seen = self.encoder(shown)
        missing = self.hidden + self.places[order[:, SEEN:]]
        both = torch.cat([seen + self.places[order[:, :SEEN]], missing], 1)
        out: Tensor = self.head(self.decoder(both)[:, SEEN:])
        return out


class Patches(Task):
    """Ten of sixteen patches are hidden, others every time; their squared error (MAE)."""

    def __init__(self) -> None:
        patches = waves(6400)
        self.train, self.held_out = parted(Split(patches, patches), 400)
        self.model = Masked()

    def outputs(self, inputs: Tensor) -> Any:
        order = torch.rand(inputs.shape[:2], device=inputs.device).argsort(1)
        return self.model(inputs, order), order[:, SEEN:]

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        found, hidden = outputs
        true = targets.gather(1, hidden.unsqueeze(2).expand(-1, -1, PATCH * PATCH))
        return functional.mse_loss(found, true)


DIRECTIONS = 8


def neighbours(count: int) -> Split:
    """A bright disc and a dark box; the class is the direction from the box to the disc."""
    places = torch.arange(float(SIDE))
    labels, lean = torch.randint(DIRECTIONS, (count,)), 0.6 * torch.rand(count) - 0.3
    angle, far = (labels + lean) * 6.283 / DIRECTIONS, 4.5 + 2.5 * torch.rand(count)
    middle = 6 + 3 * torch.rand(2, count)
    step = torch.stack([angle.sin(), angle.cos()]) * far / 2
    disc, box = (middle + step).view(2, -1, 1, 1), (middle - step).view(2, -1, 1, 1)
    down, right = places.view(1, -1, 1), places.view(1, 1, -1)
    bright = (down - disc[0]) ** 2 + (right - disc[1]) ** 2 <= 4
    dark = ((down - box[0]).abs() <= 1.6) & ((right - box[1]).abs() <= 1.6)
    pictures = 0.3 * torch.randn(count, 1, 1) + 1.5 * bright.float() - 1.5 * dark.float()
    return Split((pictures + 0.5 * torch.randn_like(pictures)).unsqueeze(1), labels)


class Mixing(nn.Module):
    """A perceptron over the patches of each channel, then one over the channels of each patch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.patches = nn.Sequential(nn.Linear(PATCHES, 32), nn.GELU(), nn.Linear(32, PATCHES))
        self.channels = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.patches(self.before(x).transpose(1, 2)).transpose(1, 2)
        out: Tensor = x + self.channels(self.between(x))
        return out


class Mixer(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, width, PATCH, stride=PATCH)
        self.blocks = nn.Sequential(Mixing(width), Mixing(width), nn.LayerNorm(width))
        self.head = nn.Linear(width, DIRECTIONS)

    def forward(self, pictures: Tensor) -> Tensor:
        out: Tensor = self.head(self.blocks(self.embed(pictures).flatten(2).mT).mean(1))
        return out


class Directions(Classification):
    """Where one thing is beside another, by perceptrons alone (MLP-Mixer)."""

    num_classes = DIRECTIONS

    def __init__(self) -> None:
        self.train, self.held_out = parted(neighbours(6800), 400)
        self.model = Mixer()


SPEAKERS, FRAMES, TONES = 40, 20, 12
MARGIN, SCALE = 0.2, 12.0


def utterances(count: int) -> Split:
    """Frames of tones: a voice colours whatever is said, through a microphone, under noise."""
    voices = torch.randn(SPEAKERS, TONES)
    shape = torch.randn(SPEAKERS, TONES, TONES) / TONES**0.5
    labels = torch.randint(SPEAKERS, (count,))
    said = torch.randn(count, FRAMES // 4, TONES).repeat_interleave(4, 1)
    spoken = torch.einsum("nft,ntu->nfu", said, shape[labels])
    sound = 0.5 * voices[labels].unsqueeze(1) + spoken + 0.2 * torch.randn(count, 1, TONES)
    return Split((sound + 0.7 * torch.randn_like(sound)).transpose(1, 2).contiguous(), labels)


class Voice(nn.Module):
    """Convolutions over time, mean and spread of what they find, and cosines to all speakers."""

    def __init__(self, width: int = 32, depth: int = 24) -> None:
        super().__init__()
        self.frames = nn.Sequential(
            *(nn.Conv1d(TONES, width, 5, padding=2), nn.ReLU(), nn.BatchNorm1d(width)),
            *(nn.Conv1d(width, width, 3, padding=2, dilation=2), nn.ReLU(), nn.BatchNorm1d(width)),
        )
        self.vector = nn.Sequential(nn.Linear(2 * width, depth), nn.BatchNorm1d(depth))
        self.head = nn.Linear(depth, SPEAKERS, bias=False)

    def forward(self, sounds: Tensor) -> Tensor:
        found = self.frames(sounds)
        spread = (found.var(2) + 1e-4).sqrt()
        vector = functional.normalize(self.vector(torch.cat([found.mean(2), spread], 1)), dim=1)
        return vector @ functional.normalize(self.head.weight, dim=1).T


class Speakers(Task):
    """Who speaks, by an angle that has to be smaller than others by a margin (ArcFace)."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(utterances(6400), 400)
        self.model = Voice()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        own = functional.one_hot(targets, SPEAKERS).to(outputs.dtype)
        angle = outputs.clamp(-0.999, 0.999).acos()
        return functional.cross_entropy(SCALE * (angle + MARGIN * own).cos(), targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"accuracy": float((outputs.argmax(1) == targets).float().mean())}


KINDS = (
    Kind(
        "rotation",
        "blind5",
        Turning,
        (
            OptimizerChoice("nesterov", 0.05, {"weight_decay": 1e-4}, decay="cosine"),
            OptimizerChoice("adamw", 6e-3, {"weight_decay": 0.01}, decay="linear"),
        ),
        steps=700,
        batch_size=8,
        num_evals=14,
        pace_ms=0.0,
        seeds=2,
        fault_seeds=1,
        faults=(
            "rate_x30 clip_tight fp16_overflow wrong_reduction accumulation stale_batchnorm "
            "schedule_unit wrong_sign nan_input",
            "rate_x30 double_softmax dead_relu dropout_in_eval overfitting one_batch "
            "missing_parameters missing_step rate_too_small",
        ),
    ),
    Kind(
        "patches",
        "blind5",
        Patches,
        (
            OptimizerChoice("adamw", 4e-3, {"weight_decay": 0.05, "fused": True}, decay="cosine"),
            OptimizerChoice("adafactor", 0.02, decay="sqrt"),
        ),
        steps=800,
        batch_size=24,
        warmup=60,
        clip=1.0,
        num_evals=16,
        pace_ms=0.0,
        seeds=2,
        fault_seeds=1,
        faults=(
            "rate_x30 no_warmup exploding_init frozen overfitting rate_zero nan_input wrong_sign",
            "rate_x30 no_warmup rate_too_small schedule_unit one_batch missing_parameters "
            "missing_step missing_zero_grad",
        ),
    ),
    Kind(
        "speakers",
        "blind5",
        Speakers,
        (
            OptimizerChoice("momentum", 0.1, {"weight_decay": 1e-4}, decay="cosine"),
            OptimizerChoice("adam", 0.012, decay="steps"),
        ),
        steps=800,
        batch_size=32,
        num_evals=16,
        pace_ms=0.0,
        seeds=2,
        fault_seeds=1,
        config={"num_classes": SPEAKERS},
        faults=(
            "rate_x30 stale_batchnorm clip_tight wrong_reduction unshuffled labels_shuffled "
            "rate_zero fp16_overflow",
            "rate_x30 eval_on_train double_softmax overfitting frozen missing_zero_grad "
            "nan_input wrong_sign labels_shuffled",
        ),
    ),
    Kind(
        "ddp_mixer",
        "blind5",
        Directions,
        (
            OptimizerChoice("adamw", 0.012, {"weight_decay": 0.02, "fused": True}, decay="cosine"),
            OptimizerChoice("lion", 1.8e-3, {"weight_decay": 0.1}, decay="linear"),
        ),
        steps=700,
        batch_size=16,
        warmup=50,
        num_evals=14,
        world=2,
        pace_ms=0.0,
        seeds=2,
        fault_seeds=1,
        config={"num_classes": DIRECTIONS},
        faults=(
            "rank_drift straggler same_data_on_ranks hang no_warmup label_leak "
            "double_softmax rate_x30",
            "rank_drift straggler same_data_on_ranks no_warmup unshuffled labels_shuffled "
            "rate_x10 rate_too_small",
        ),
    ),
)
