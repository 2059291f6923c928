"""Unseen tasks: written after the rules were frozen, and only for their evaluation."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.clinic.task import Classification, Regression, Split, Task


def fixed(*shape: int, seed: int) -> Tensor:
    """Normal numbers that do not depend on the seed of the training."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def overwrite(split: Split, values: Tensor) -> Split:
    """The same samples with values in place of the first numbers of each input."""
    inputs = split.inputs.clone()
    inputs.flatten(1)[:, : values.shape[1]] = values
    return Split(inputs, split.targets)


class Signals(Classification):
    """Classes of inputs with any number of dimensions."""

    def leak(self, split: Split) -> Split:
        return overwrite(split, 3 * functional.one_hot(split.targets, self.num_classes).float())


def waves(centers: Tensor, width: Tensor, height: Tensor) -> Tensor:
    """The sum of bumps along 128 points of time."""
    away = (torch.arange(128.0) - centers.unsqueeze(2)) / width.view(-1, 1, 1)
    return height.view(-1, 1) * (-0.5 * away.square()).exp().sum(1)


def heartbeats(count: int) -> Split:
    """ECG-like signals: normal, no P wave, inverted T wave, wide QRS complex, irregular."""
    labels, ones = torch.randint(5, (count,)), torch.ones(count)
    period, phase = 26 + 14 * torch.rand(count, 1), 30 * torch.rand(count, 1)
    jitter = torch.where(labels == 4, 0.16, 0.02).unsqueeze(1) * torch.randn(count, 6)
    peaks = phase + period * (torch.arange(6.0) - 0.5 + jitter)
    signal = waves(peaks - 0.2 * period, 2.0 * ones, 0.25 * (labels != 1))
    signal += waves(peaks, torch.where(labels == 3, 2.2, 1.1), 1.2 * ones)
    signal += waves(peaks + 0.3 * period, 3.0 * ones, torch.where(labels == 2, -0.35, 0.35))
    drift = (torch.arange(128.0) / 40 + 6.3 * torch.rand(count, 1)).sin()
    signal += 0.3 * torch.rand(count, 1) * drift + 0.15 * torch.randn(count, 128)
    return Split((signal.unsqueeze(1) - 0.2) / 0.4, labels)


class Heartbeats(Signals):
    """A 1-D convolutional network."""

    name = "heartbeats"
    num_classes = 5
    optimizer = "momentum"
    lr = 0.2
    steps = 500
    cosine = True
    has_modes = True
    first_layer = "1"
    config: ClassVar = {"num_classes": 5, "momentum": 0.9}

    def __init__(self) -> None:
        self.train, self.held_out = heartbeats(5000).parts(600)
        self.model = nn.Sequential(
            *(nn.Conv1d(1, 12, 7, stride=2, bias=False), nn.BatchNorm1d(12), nn.ReLU()),
            *(nn.Conv1d(12, 24, 5, stride=2, bias=False), nn.BatchNorm1d(24), nn.ReLU()),
            *(nn.Conv1d(24, 24, 5, bias=False), nn.BatchNorm1d(24), nn.ReLU()),
            *(nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(24, 5)),
        )


def spectrograms(count: int, words: int = 8) -> Split:
    """20 frames of 16 bands: each word moves two formants, each speaker shifts and hurries them."""
    labels = torch.randint(words, (count,))
    tracks = 7.5 + 3 * fixed(words, 2, 4, seed=5)[labels] + 1.2 * torch.randn(count, 1, 1)
    pace = (0.7 + 0.6 * torch.rand(count, 1)) * torch.linspace(0, 3, 20) + 0.2 * torch.randn(
        count, 1
    )
    at = pace.clamp(0, 2.999).unsqueeze(1).expand(-1, 2, -1)
    low, share = at.long(), at - at.floor()
    formants = (1 - share) * tracks.gather(2, low) + share * tracks.gather(2, low + 1)
    away = (torch.arange(16.0) - formants.unsqueeze(3)) / 1.2
    power = (-0.5 * away.square()).exp().sum(1) * (0.5 + torch.rand(count, 1, 1))
    return Split((power + 0.4 * torch.randn(count, 20, 16)) / 0.5, labels)


class KeywordGru(nn.Module):
    def __init__(self, words: int) -> None:
        super().__init__()
        self.bands = nn.Linear(16, 24, bias=False)
        self.norm = nn.BatchNorm1d(24)
        self.cells = nn.GRU(24, 32, batch_first=True)
        self.head = nn.Linear(32, words)

    def forward(self, frames: Tensor) -> Tensor:
        bands = self.norm(self.bands(frames).transpose(1, 2)).relu()
        out: Tensor = self.head(self.cells(bands.transpose(1, 2))[0][:, -1])
        return out


class Keywords(Signals):
    """Keyword spotting."""

    name = "keywords"
    num_classes = 8
    optimizer = "adam"
    lr = 7e-3
    steps = 500
    clip = 5.0
    typed = False
    has_modes = True
    first_layer = "norm"

    def __init__(self) -> None:
        self.train, self.held_out = spectrograms(5000).parts(600)
        self.model = KeywordGru(8)


class Counting(Regression):
    """How many blobs a picture shows."""

    name = "counting"
    lr = 2e-2
    steps = 500
    batch_size = 24
    warmup = 30
    cosine = True
    first_layer = "0"

    def __init__(self) -> None:
        count = 4500
        number = torch.randint(0, 9, (count, 1))
        x, y = (16 * torch.rand(2, count, 8, 1, 1) - 0.5).unbind()
        ink = (0.5 + 0.5 * torch.rand(count, 8)) * (torch.arange(8) < number)
        grid, size = torch.arange(16.0), 0.8 + 0.4 * torch.rand(count, 8, 1, 1)
        away = ((grid - x).square() + (grid.unsqueeze(1) - y).square()) / size.square()
        pictures = (ink.view(count, 8, 1, 1) * (-0.5 * away).exp()).sum(1, keepdim=True)
        pictures += 0.1 * torch.randn_like(pictures)
        self.train, self.held_out = Split(pictures / 0.3 - 0.4, number.float()).parts(500)
        self.model = nn.Sequential(
            *(nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.Conv2d(10, 12, 3, padding=1)),
            *(nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3, padding=1), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 1)),
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.smooth_l1_loss(outputs, targets)

    def leak(self, split: Split) -> Split:
        return overwrite(split, split.targets)


class MessagePassing(nn.Module):
    """Two rounds of messages between the nodes of a graph, and the mean of all nodes."""

    def __init__(self, features: int, width: int = 32) -> None:
        super().__init__()
        self.features = features
        self.nodes = nn.Linear(features, width)
        self.messages = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(2))
        self.head = nn.Linear(width, 1)

    def forward(self, graphs: Tensor) -> Tensor:
        edges = graphs[:, :, self.features :]
        nodes = self.nodes(graphs[:, :, : self.features]).relu()
        for layer in self.messages:
            nodes = nodes + layer(torch.cat([nodes, edges @ nodes / 4], 2)).relu()
        out: Tensor = self.head(nodes.mean(1))
        return out


class Graphs(Regression):
    """The energy of a random graph: features of its neighbouring nodes attract each other."""

    name = "graphs"
    optimizer = "adam"
    lr = 7e-3
    steps = 550
    first_layer = "nodes"

    def __init__(self) -> None:
        count, size, features = 6000, 12, 3
        nodes = torch.randn(count, size, features)
        drawn = (torch.rand(count, size, size) < 0.15 + 0.3 * torch.rand(count, 1, 1)).float()
        edges = drawn.triu(1) + drawn.triu(1).transpose(1, 2)
        pull = (edges @ nodes * nodes).sum((1, 2)) / 14
        energy = pull + edges.sum((1, 2)) / 20 - 2 + nodes[:, :, 0].abs().sum(1) / 5 - 1.9
        energy += 0.2 * torch.randn(count)
        split = Split(torch.cat([nodes, edges], 2), energy.unsqueeze(1))
        self.train, self.held_out = split.parts(500)
        self.model = MessagePassing(features)

    def leak(self, split: Split) -> Split:
        return overwrite(split, split.targets)


def clouds(count: int, points: int = 48) -> Split:
    """Points of a ball, a box, a torus, a cylinder, a cone and a helix, turned and stretched."""
    labels = torch.randint(6, (count,))
    turn, tilt = 2 * math.pi * torch.rand(2, count, points)
    up = 2 * torch.rand(count, points) - 1
    ring = torch.stack([turn.cos(), turn.sin()], 2)
    box = 2 * torch.rand(count, points, 3) - 1
    torus = torch.cat(
        [(0.75 + 0.3 * tilt.cos()).unsqueeze(2) * ring, 0.3 * tilt.sin()[..., None]], 2
    )
    cone = torch.cat([(0.5 - 0.5 * up).unsqueeze(2) * ring, up.unsqueeze(2)], 2)
    helix = torch.stack([(5 * up).cos(), (5 * up).sin(), up], 2)
    shapes = torch.stack(
        [
            functional.normalize(torch.randn(count, points, 3), dim=2),
            0.85 * box / box.abs().amax(2, keepdim=True),
            *(torus, torch.cat([0.8 * ring, up.unsqueeze(2)], 2), cone, helix),
        ]
    )
    chosen = shapes[labels, torch.arange(count)] * (0.8 + 0.4 * torch.rand(count, 1, 3))
    turned = chosen @ torch.linalg.qr(torch.randn(count, 3, 3))[0]
    return Split((turned + 0.05 * torch.randn_like(turned)) / 0.6, labels)


class PointNet(nn.Module):
    """A perceptron for each point, the maximum over all points, and another perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(*(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 96), nn.ReLU()))
        self.dropout = nn.Dropout(0.1)
        self.shape = nn.Linear(96, 48)
        self.head = nn.Linear(48, 6)

    def forward(self, clouds: Tensor) -> Tensor:
        found = self.shape(self.dropout(self.points(clouds).amax(1))).relu()
        out: Tensor = self.head(found)
        return out


class PointClouds(Signals):
    name = "point_clouds"
    num_classes = 6
    optimizer = "sgd"
    lr = 0.25
    steps = 600
    cosine = True
    has_modes = True
    first_layer = "points.0"
    config: ClassVar = {"num_classes": 6}

    def __init__(self) -> None:
        self.train, self.held_out = clouds(6000).parts(500)
        self.model = PointNet()

    def leak(self, split: Split) -> Split:
        """Put the class into the first point, beyond all others."""
        return overwrite(split, 4.0 + split.targets.unsqueeze(1).expand(-1, 3).float())


class RobotArm(Task):
    """The angles of an arm that reaches a place, as a mixture of normal distributions."""

    name = "robot_arm"
    optimizer = "adam"
    lr = 1e-2
    steps = 600
    batch_size = 64
    cosine = True
    can_leak = True
    sortable = True
    first_layer = "0"

    def __init__(self) -> None:
        count = 7000
        angles = torch.rand(count, 2) * torch.tensor([2.0, 4.0]) - torch.tensor([0.0, 2.0])
        first, both = angles[:, 0], angles.sum(1)
        place = torch.stack([first.cos() + both.cos(), first.sin() + both.sin()], 1)
        sensors = torch.randn(count, 4)
        split = Split(torch.cat([sensors, place + 0.03 * torch.randn(count, 2)], 1), angles)
        self.train, self.held_out = split.parts(600)
        self.model = nn.Sequential(
            *(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 20))
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        parts = outputs.unflatten(1, (4, 5))
        share, mean, log_std = parts[..., 0].log_softmax(1), parts[..., 1:3], parts[..., 3:]
        away = (targets.unsqueeze(1) - mean) * (-log_std).exp()
        density = -(0.5 * away.square() + log_std + 0.5 * math.log(2 * math.pi)).sum(2)
        loss: Tensor = -(share + density).logsumexp(1).mean()
        return loss

    def leak(self, split: Split) -> Split:
        return overwrite(split, split.targets)


class Tags(Task):
    """The tags of a text, from how often each word occurs."""

    name = "tags"
    optimizer = "adagrad"
    lr = 0.06
    steps = 450
    typed = False
    can_leak = True
    has_modes = True
    first_layer = "0"

    def __init__(self) -> None:
        tags = (torch.rand(6000, 12) < 0.18).float()
        words = torch.poisson(
            (0.15 + tags @ fixed(12, 120, seed=3).mul(1.5).exp() / 12).clamp(max=9)
        )
        self.train, self.held_out = Split((words.log1p() - 0.3) / 0.5, tags).parts(600)
        self.model = nn.Sequential(
            *(nn.Linear(120, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 12))
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, targets)

    def metrics(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        guess = (outputs > 0).float()
        return {"f1": float(2 * (guess * targets).sum() / (guess + targets).sum().clamp(min=1))}

    def leak(self, split: Split) -> Split:
        return overwrite(split, 3 * split.targets)


class Triplets(Signals):
    """Metric learning: pictures of a person shall be nearer to each other than to other people."""

    name = "triplets"
    num_classes = 10
    optimizer = "momentum"
    lr = 0.05
    steps = 500
    batch_size = 64
    first_layer = "0"
    config: ClassVar = {"margin": 0.5}

    def __init__(self) -> None:
        people = torch.randint(10, (6000,))
        traits = 1.5 * fixed(10, 6, seed=1)[people] + 0.35 * torch.randn(6000, 6)
        hidden = torch.cat([traits, 1.5 * torch.randn(6000, 6)], 1) @ fixed(12, 48, seed=2) / 3
        split = Split(hidden.tanh() + 0.2 * torch.randn(6000, 48), people)
        self.train, self.held_out = split.parts(600)
        self.model = nn.Sequential(
            *(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
        )

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        codes, same = functional.normalize(outputs, dim=1), targets.unsqueeze(1) == targets
        away = 2 - 2 * codes @ codes.T
        valid = same.unsqueeze(2) & ~same.unsqueeze(1)
        violated = (away.unsqueeze(2) - away.unsqueeze(1) + 0.5).relu() * valid
        return violated.sum() / valid.sum().clamp(min=1)

    def metrics(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        codes = functional.normalize(outputs, dim=1)
        nearest = (codes @ codes.T - 9 * torch.eye(len(codes))).argmax(1)
        return {"recall_at_1": float((targets[nearest] == targets).float().mean())}


class Sorter(nn.Module):
    """A GRU reads, another one writes and attends to what was read."""

    def __init__(self, symbols: int, width: int = 40) -> None:
        super().__init__()
        self.symbols = nn.Embedding(symbols + 1, width)
        self.reader = nn.GRU(width, width // 2, batch_first=True, bidirectional=True)
        self.writer = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(2 * width, symbols)

    def forward(self, symbols: Tensor) -> Tensor:
        source, written = self.symbols(symbols).chunk(2, 1)
        read, state = self.reader(source)
        asked, _ = self.writer(written, torch.cat([*state], 1).unsqueeze(0))
        seen = functional.scaled_dot_product_attention(asked, read, read)
        out: Tensor = self.head(torch.cat([asked, seen], 2))
        return out


class Sorting(Task):
    """Six symbols in their order; the inputs end with what has been written before."""

    name = "sorting"
    lr = 1e-2
    steps = 450
    batch_size = 24
    warmup = 40
    clip = 1.0
    float_inputs = False
    sortable = True

    def __init__(self) -> None:
        symbols = torch.randint(16, (8000, 6))
        ordered = symbols.sort(1).values
        before = functional.pad(ordered[:, :-1], (1, 0), value=16)
        self.train, self.held_out = Split(torch.cat([symbols, before], 1), ordered).parts(500)
        self.model = Sorter(16)

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def metrics(self, outputs: Any, targets: Tensor) -> dict[str, float]:
        return {"exact": float((outputs.argmax(2) == targets).all(1).float().mean())}


class ClaimRates(nn.Module):
    """Embeddings of two categories beside three numbers."""

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.region, self.car = nn.Embedding(8, 4), nn.Embedding(20, 6)
        self.register_buffer("mean", torch.tensor([54.0, 20.0, 110.0]))
        self.register_buffer("std", torch.tensor([21.0, 11.0, 40.0]))
        self.mix = nn.Sequential(
            *(nn.Linear(13, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 24), nn.ReLU())
        )
        self.head = nn.Linear(24, 1)

    def forward(self, rows: Tensor) -> Tensor:
        numbers = (rows[:, 2:] - self.mean) / self.std
        both = [self.region(rows[:, 0]), self.car(rows[:, 1]), numbers]
        out: Tensor = self.head(self.mix(torch.cat(both, 1)))
        return out


class Claims(Task):
    """How many claims a contract has: the rate of a Poisson distribution."""

    name = "claims"
    optimizer = "momentum"
    lr = 0.04
    steps = 500
    batch_size = 128
    typed = False
    float_inputs = False
    can_leak = True
    sortable = True
    has_modes = True
    first_layer = "mix.0"

    def __init__(self) -> None:
        count = 12_000
        region, car = torch.randint(8, (count,)), torch.randint(20, (count,))
        age, distance = torch.randint(18, 91, (count,)), torch.randint(1, 40, (count,))
        power = torch.randint(40, 181, (count,))
        effect = 0.6 * fixed(8, seed=8)[region] + 0.6 * fixed(20, seed=9)[car]
        young = ((40 - age) / 20).clamp(min=0) * power / 110
        rate = (effect + young + (distance / 15).log() - 0.3).exp().clamp(max=30)
        rows = torch.stack([region, car, age, distance, power], 1)
        self.train, self.held_out = Split(rows, torch.poisson(rate).unsqueeze(1)).parts(1000)
        self.model = ClaimRates()

    def loss(self, outputs: Any, targets: Tensor) -> Tensor:
        return functional.poisson_nll_loss(outputs, targets)

    def leak(self, split: Split) -> Split:
        """The power of the car gives way to the number of claims."""
        inputs = split.inputs.clone()
        inputs[:, 4] = 40 + 10 * split.targets[:, 0].long()
        return Split(inputs, split.targets)


TASKS = (
    *(Heartbeats, Keywords, Counting, Graphs, PointClouds),
    *(RobotArm, Tags, Triplets, Sorting, Claims),
)
