"""Signals in time: sounds that are mixed, spoken digits without alignment, motion by its laws."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.kinds.tables import parted
from benchmarks.clinic.task import Classification, Kind, OptimizerChoice, Split, Task

TICKS, SOUNDS, MIXING = 256, 6, 0.3


def sounds(count: int) -> Split:
    """Tones that rise, fall, beat, tremble, fade or carry an overtone; pitch is by chance."""
    labels = torch.randint(SOUNDS, (count,))
    time = torch.linspace(0, 1, TICKS).expand(count, -1)
    pitch = 12 + 18 * torch.rand(count, 1)
    rising, falling = pitch * time * (1 + time), pitch * time * (3 - time)
    beat = 1 + (2 * torch.pi * 5 * time).cos()
    shaken = pitch * 1.5 * time + 0.8 * (2 * torch.pi * 4 * time).sin()
    turn, start = 2 * torch.pi, torch.rand(count, 1)
    plain = (turn * (1.5 * pitch * time + start)).sin()
    made = torch.stack(
        [
            (turn * (rising + start)).sin(),
            (turn * (falling / 2 + start)).sin(),
            beat * plain,
            (turn * (shaken + start)).sin(),
            2 * (-3 * time).exp() * plain,
            0.7 * (plain + (turn * (3 * pitch * time + start)).sin()),
        ]
    )
    waves = made[labels, torch.arange(count)]
    return Split((waves + 0.7 * torch.randn(count, TICKS)).unsqueeze(1), labels)


def layer(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(inputs, outputs, 9, stride, padding=4, bias=False),
        nn.BatchNorm1d(outputs),
        nn.ReLU(),
    )


class Audio(Classification):
    """One-dimensional convolutions; in training every sound is mixed with another one."""

    num_classes = SOUNDS

    def __init__(self) -> None:
        self.train, self.held_out = parted(sounds(5600), 600)
        self.model = nn.Sequential(
            layer(1, 16, 2),
            layer(16, 32, 4),
            layer(32, 48, 4),
            nn.AdaptiveMaxPool1d(1),
            nn.Flatten(),
            nn.Dropout(0.1),
            nn.Linear(48, SOUNDS),
        )
        self._share = 1.0
        self._other: Tensor | None = None

    def outputs(self, inputs: Tensor) -> Any:
        self._other = None
        if torch.is_grad_enabled():
            share = float(torch.distributions.Beta(MIXING, MIXING).sample())
            self._share = max(share, 1 - share)
            self._other = torch.randperm(len(inputs), device=inputs.device)
            inputs = self._share * inputs + (1 - self._share) * inputs[self._other]
        return self.model(inputs)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        own = functional.cross_entropy(outputs, targets)
        if self._other is None:
            return own
        other = functional.cross_entropy(outputs, targets[self._other])
        return self._share * own + (1 - self._share) * other


FRAMES, BANDS, SYMBOLS, LONGEST = 24, 12, 8, 4  # symbol 0 is the blank


def speech(count: int) -> Split:
    """Frames in which some symbols sound one after the other, each for as long as it likes."""
    voices = 2.5 * torch.randn(SYMBOLS, BANDS)
    lengths = torch.randint(2, LONGEST + 1, (count, 1))
    # Neighbours differ: no symbol comes twice in a row.
    steps = torch.randint(1, SYMBOLS - 1, (count, LONGEST))
    symbols = 1 + steps.cumsum(1) % (SYMBOLS - 1)
    symbols = symbols * (torch.arange(LONGEST) < lengths)
    shares = (0.4 + torch.rand(count, LONGEST)) * (symbols > 0)
    ends = FRAMES * shares.cumsum(1) / shares.sum(1, keepdim=True)
    now = torch.arange(FRAMES).view(1, -1, 1)
    spoken = (now >= ends.unsqueeze(1)).sum(-1).clamp(max=LONGEST - 1)
    frames = voices[symbols.gather(1, spoken)] + torch.randn(count, FRAMES, BANDS)
    return Split(frames, symbols)


class Recogniser(nn.Module):
    """A convolution over frames and a recurrent layer in both directions."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.frames = nn.Conv1d(BANDS, width, 3, padding=1)
        self.cells = nn.GRU(width, width, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(2 * width, SYMBOLS)

    def forward(self, frames: Tensor) -> Tensor:
        hidden = torch.relu(self.frames(frames.transpose(1, 2))).transpose(1, 2)
        hidden, _ = self.cells(hidden)
        out: Tensor = self.head(self.dropout(hidden))
        return out


class Speech(Task):
    """The sum over all alignments of symbols and frames (CTC)."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(speech(6400), 400)
        self.model = Recogniser()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        chances = outputs.log_softmax(-1).transpose(0, 1)
        frames = torch.full((len(targets),), FRAMES, dtype=torch.long, device=targets.device)
        return functional.ctc_loss(chances, targets, frames, (targets > 0).sum(1))

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        best = outputs.argmax(-1)
        starts = (best > 0) & (best != functional.pad(best[:, :-1], (1, 0)))
        right = 0
        for row, start, wanted in zip(best.cpu(), starts.cpu(), targets.cpu(), strict=True):
            right += row[start].tolist() == wanted[wanted > 0].tolist()
        return {"exact_match": right / len(targets)}


MOMENTS, APART_S = 8, 0.35


def _motion(state: Tensor, strength: Tensor) -> Tensor:
    prey, hunters = state.unbind(-1)
    return torch.stack([prey * (1 - hunters), strength * hunters * (prey - 1)], -1)


def orbits(count: int) -> Split:
    """Prey and hunters from a start on, with noise; one law for all of them."""
    state = 0.4 + 1.4 * torch.rand(count, 2)
    strength, first, seen = 0.6 + torch.rand(1), state, []
    for _ in range(MOMENTS):
        for _ in range(20):
            half = state + APART_S / 40 * _motion(state, strength)
            state = state + APART_S / 20 * _motion(half, strength)
        seen.append(state + 0.02 * torch.randn(count, 2))
    return Split(first, torch.stack(seen, 1))


class Orbits(Task):
    """A network is the law of motion; its error is that of whole paths."""

    def __init__(self) -> None:
        self.train, self.held_out = parted(orbits(4400), 400)
        self.model = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.model.append(nn.Linear(48, 2))

    def outputs(self, inputs: Tensor) -> Any:
        state, path = inputs, []
        for _ in range(MOMENTS):
            half = state + APART_S / 2 * self.model(state)
            state = state + APART_S * self.model(half)
            path.append(state)
        return torch.stack(path, 1)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.mse_loss(outputs, targets)

    def measures(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"last_error": float((outputs[:, -1] - targets[:, -1]).abs().mean())}


KINDS = (
    Kind(
        "audio",
        "unseen",
        Audio,
        (
            OptimizerChoice("momentum", 0.03, {"weight_decay": 5e-4}, decay="cosine"),
            OptimizerChoice("lion", 3e-4, {"weight_decay": 0.1}, decay="linear"),
        ),
        steps=700,
        batch_size=32,
        num_evals=14,
        config={"num_classes": SOUNDS},
        faults=(
            "rate_x30 stale_batchnorm unshuffled double_softmax clip_tight wrong_reduction "
            "rate_too_small fp16_overflow",
            "labels_shuffled frozen overfitting rate_zero slow_loader",
        ),
    ),
    Kind(
        "speech",
        "unseen",
        Speech,
        (OptimizerChoice("adamw", 6e-3, decay="sqrt"), OptimizerChoice("rmsprop", 1.5e-3)),
        steps=1000,
        batch_size=32,
        warmup=50,
        clip=5.0,
        num_evals=25,
        faults=(
            "rate_x30 schedule_unit labels_shuffled missing_parameters overfitting tiny_init "
            "no_warmup",
            "exploding_init rate_x10 nan_input wrong_sign missing_step",
        ),
    ),
    Kind(
        "orbits",
        "unseen",
        Orbits,
        (OptimizerChoice("adam", 3e-3, decay="cosine"), OptimizerChoice("rmsprop", 1e-3)),
        steps=600,
        batch_size=64,
        typed=False,
        pace_ms=12.0,
        faults=(
            "rate_x30 rate_zero tiny_init missing_zero_grad nan_input labels_shuffled frozen",
            "rate_x30 exploding_init wrong_sign schedule_unit",
        ),
    ),
)
